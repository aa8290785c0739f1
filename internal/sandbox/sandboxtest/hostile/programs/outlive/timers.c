// Ends, and leaves timers, alarms and queued work that would start it again.
// kernel: shared
static void outlive_timers_ring(int s) { if (fork() == 0) for (;;) pause(); }
static void outlive_timers(void) {
	signal(SIGALRM, outlive_timers_ring);
	signal(SIGVTALRM, outlive_timers_ring);
	signal(SIGPROF, outlive_timers_ring);
	struct itimerval every = {{0, 1000}, {0, 1000}};
	for (int kind = 0; kind < 3; kind++) {
		setitimer(kind, &every, 0);
		tried("timer %d", kind);
	}
	for (int i = 0; i < 50; i++) usleep(1000);
	for (int i = 0; i < 3; i++) setitimer(i, &(struct itimerval){0}, 0);
	signal(SIGALRM, SIG_IGN); signal(SIGVTALRM, SIG_IGN); signal(SIGPROF, SIG_IGN);
}
