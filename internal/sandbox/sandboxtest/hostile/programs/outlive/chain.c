// Forks and ends, forks and ends, so that no list of processes holds it.
static void hop(int flags) {
	for (;;) {
		long p = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
		if (p > 0) syscall(SYS_exit_group, 0);
	}
}
static void outlive_chain(void) {
	signal(SIGCHLD, SIG_IGN);
	tried("leave");
	for (int i = 0; i < 3; i++) if (fork() == 0) hop(0);
	for (int i = 0; i < 3; i++) if (fork() == 0) hop(CLONE_PARENT);
	usleep(20000);
}
