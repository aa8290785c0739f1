// Hides what it computes: in children that end at once, under names like the fields of a list.
static void lies_account(void) {
	prctl(PR_SET_NAME, "x) R 1 1 1 1 1");
	tried("compute");
	for (int i = 0; i < 8; i++) {
		pid_t p = fork();
		if (p == 0) {
			struct timespec t;
			do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); while (t.tv_nsec < 60000000);
			_exit(0);
		}
		waitpid(p, 0, 0);
	}
}
