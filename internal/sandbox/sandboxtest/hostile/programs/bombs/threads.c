// Starts threads until it is refused.
// kernel: shared
static void *idle(void *x) { for (;;) pause(); }
static void bombs_threads(void) {
	pthread_attr_t a;
	pthread_t t;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	int n = 0;
	while (n < 5000 && pthread_create(&t, &a, idle, 0) == 0) n++;
	tried("%d threads", n);
	if (n >= 200) breach("there are %d threads", n);
}
