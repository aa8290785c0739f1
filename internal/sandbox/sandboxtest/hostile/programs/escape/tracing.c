// Looks into other processes and takes them over.
// kernel: shared
// weaken: system-call filter
#include <sys/ptrace.h>
#include <sys/uio.h>
static void escape_tracing(void) {
	char byte;
	pid_t child = fork();
	if (child == 0) { pause(); _exit(0); }
	struct iovec mine = {&byte, 1}, theirs = {(void *)main, 1};
	pid_t pids[] = {1, child, getpid()};
	for (int i = 0; i < 3; i++) {
		REFUSED("ptrace attach", ptrace(PTRACE_ATTACH, pids[i], 0, 0));
		REFUSED("ptrace seize", ptrace(PTRACE_SEIZE, pids[i], 0, 0));
		REFUSED("process_vm_readv", process_vm_readv(pids[i], &mine, 1, &theirs, 1, 0));
		REFUSED("process_vm_writev", process_vm_writev(pids[i], &mine, 1, &theirs, 1, 0));
		REFUSED("kcmp", syscall(SYS_kcmp, pids[i], getpid(), 0, 0, 0));
		REFUSED("pidfd_open", syscall(SYS_pidfd_open, pids[i], 0));
		REFUSED("process_madvise", syscall(SYS_process_madvise, 0, &theirs, 1, MADV_COLD, 0));
		REFUSED("process_mrelease", syscall(SYS_process_mrelease, 0, 0));
	}
	for (int fd = 0; fd < 128; fd++) {
		REFUSED("pidfd_getfd", syscall(SYS_pidfd_getfd, fd, 0, 0));
		REFUSED("pidfd_send_signal", syscall(SYS_pidfd_send_signal, fd, 9, 0, 0));
	}
	REFUSED("ptrace me", ptrace(PTRACE_TRACEME, 0, 0, 0));
	kill(child, SIGKILL);
}
