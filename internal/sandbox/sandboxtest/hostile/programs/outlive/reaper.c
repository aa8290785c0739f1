// Makes itself the father of all orphans, in a chain.
static void outlive_reaper(void) {
	tried("leave");
	for (int i = 0; i < 10; i++) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		prctl(PR_SET_PDEATHSIG, 0);
		if (fork()) break;
		setsid();
		if (i == 9) for (;;) pause();
	}
	if (getpid() != 2 && getppid() != 0) for (int n = 0; n < 3; n++) { if (fork() == 0) for (;;) pause(); }
}
