// Moves pages between files and pipes without copies.
// kernel: shared
// weaken: system-call filter
#include <sys/uio.h>
static void escape_splices(void) {
	int p[2], q[2], fd = open("/etc/passwd", O_RDONLY);
	char page[4096];
	struct iovec v = {page, sizeof page};
	if (pipe(p) || pipe(q)) _exit(3);
	REFUSED("splice", splice(fd, 0, p[1], 0, 100, 0));
	REFUSED("vmsplice", vmsplice(p[1], &v, 1, 0));
	REFUSED("vmsplice gift", vmsplice(p[1], &v, 1, 8));
	REFUSED("tee", tee(p[0], q[1], 100, SPLICE_F_NONBLOCK));
}
