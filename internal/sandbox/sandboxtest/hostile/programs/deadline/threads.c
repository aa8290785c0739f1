// Computes with as many threads as there may be, in processes whose first thread has ended.
// ends: timeout
// timeout: 500ms
// processes: 1000
static void *compute(void *x) { nice(19); for (;;); }
static void deadline_threads(void) {
	tried("threads");
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			pthread_t t;
			for (int n = 0; n < 300; n++) if (pthread_create(&t, &small, compute, 0)) break;
			pthread_exit(0);
		}
	for (;;);
}
