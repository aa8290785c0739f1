// Has its processes trace and stop one another, so that none can be woken to die.
// kernel: shared
// ends: timeout
// timeout: 500ms
// processes: 100
static void deadline_tracing(void) {
	REFUSED("trace pid 1", syscall(SYS_ptrace, 0x4206, 1, 0, 0x00100000));
	REFUSED("be traced", syscall(SYS_ptrace, 0, 0, 0, 0));
	pid_t last = getpid();
	for (int i = 0; i < 80; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			syscall(SYS_ptrace, 0x4206, last, 0, 0);
			for (int s = 1; s < 65; s++) signal(s, SIG_IGN);
			if (i % 2) raise(SIGSTOP);
			for (;;);
		}
		last = pid;
	}
	for (;;);
}
