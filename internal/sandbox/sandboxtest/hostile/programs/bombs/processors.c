// Takes every processor with every process that it may have.
// ends: timeout
// timeout: 500ms
static void *spin(void *x) { for (volatile long i = 0;; i++); }
static void bombs_processors(void) {
	tried("spin");
	pthread_t t;
	for (int i = 0; i < 60; i++) pthread_create(&t, 0, spin, 0);
	spin(0);
}
