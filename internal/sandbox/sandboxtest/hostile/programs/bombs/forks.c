// Forks in every way at once: sessions of their own, double forks, threads of forks.
// ends: timeout
// timeout: 500ms
static void *forking(void *x) { for (;;) if (fork() == 0) { setsid(); if (fork() == 0) for (;;) fork(); } }
static void bombs_forks(void) {
	tried("fork");
	pthread_t t;
	for (int i = 0; i < 8; i++) pthread_create(&t, 0, forking, 0);
	forking(0);
}
