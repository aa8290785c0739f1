// Brings code of its own into the kernel: BPF, packet filters, protocols on TCP.
// kernel: shared
// weaken: system-call filter
#include <linux/filter.h>
static void escape_programs_in_kernel(void) {
	char attr[128] = {0};
	for (int command = 0; command < 40; command++) REFUSED("bpf", syscall(SYS_bpf, command, attr, sizeof attr));
	struct sock_filter code = {0x06, 0, 0, 0xffffffff};
	struct sock_fprog program = {1, &code};
	int kinds[][2] = {{AF_INET, SOCK_STREAM}, {AF_INET, SOCK_DGRAM}, {AF_INET6, SOCK_DGRAM}, {AF_UNIX, SOCK_DGRAM}};
	for (int i = 0; i < 4; i++) {
		int s = socket(kinds[i][0], kinds[i][1], 0), fd = 0, on = 1;
		REFUSED("SO_ATTACH_FILTER", setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
		REFUSED("SO_ATTACH_BPF", setsockopt(s, SOL_SOCKET, SO_ATTACH_BPF, &fd, sizeof fd));
		setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
		REFUSED("SO_ATTACH_REUSEPORT_CBPF", setsockopt(s, SOL_SOCKET, 51, &program, sizeof program));
		REFUSED("SO_ATTACH_REUSEPORT_EBPF", setsockopt(s, SOL_SOCKET, 52, &fd, sizeof fd));
	}
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;
	if (bind(server, (void *)&a, size) || listen(server, 1) || getsockname(server, (void *)&a, &size) || connect(client, (void *)&a, size)) _exit(3);
	const char *protocols[] = {"tls", "mptcp", "espintcp", "smc"};
	for (int i = 0; i < 4; i++) {
		REFUSED_AS(protocols[i], ENOPROTOOPT, setsockopt(client, IPPROTO_TCP, 31, protocols[i], strlen(protocols[i])));
	}
}
