// Makes its own init bury thousands.
static void bombs_orphans(void) {
	int n = 0;
	for (int i = 0; i < 3000; i++) {
		pid_t p = fork();
		if (p == 0) { if (fork() == 0) _exit(0); _exit(0); }
		if (p > 0) { waitpid(p, 0, 0); n++; }
	}
	tried("%d orphans", n);
}
