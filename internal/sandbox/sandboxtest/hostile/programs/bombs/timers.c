// Arms timers and queues signals until it is refused.
// kernel: shared
static void bombs_timers(void) {
	int n = 0, queued = 0;
	timer_t id;
	struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 40};
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, 0);
	while (n < 100000 && timer_create(CLOCK_REALTIME, &e, &id) == 0) {
		struct itimerspec fast = {{0, 1000}, {0, 1000}};
		timer_settime(id, 0, &fast, 0);
		n++;
	}
	tried("%d timers: %s", n, strerror(errno));
	while (queued < 100000 && sigqueue(getpid(), 41, (union sigval){0}) == 0) queued++;
	tried("%d signals: %s", queued, strerror(errno));
	if (n > 300 || queued > 300) breach("%d timers, %d signals", n, queued);
}
