// Loosens its filter with another, and catches system calls by one.
// kernel: shared
// weaken: system-call filter
#include <linux/filter.h>
#include <linux/seccomp.h>
static void escape_filters(void) {
	struct sock_filter code = {0x06, 0, 0, 0x7fff0000};
	struct sock_fprog program = {1, &code};
	REFUSED("seccomp with a listener", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 8, &program));
	REFUSED("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program); /* it may, and that allows nothing */
	REFUSED("unshare after a filter that allows all", syscall(SYS_unshare, CLONE_NEWUSER));
	REFUSED("back to no filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_DISABLED, 0));
}
