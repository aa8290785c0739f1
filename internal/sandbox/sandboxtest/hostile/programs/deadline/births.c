// Has children faster than they can be counted, each in a session of its own, at the least priority.
// ends: timeout
// timeout: 500ms
// processes: 140
static void deadline_births(void) {
	tried("fork");
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 20; i++) if (fork() == 0) break;
	nice(19);
	for (;;) if (fork() == 0) { setsid(); if (fork() != 0) _exit(0); }
}
