// Ends its first thread and goes on with another.
// ends: timeout
// timeout: 1s
static void *go_on(void *x) { for (;;) pause(); }
static void outlive_first_thread(void) {
	pthread_t t;
	pthread_create(&t, 0, go_on, 0);
	tried("leave");
	syscall(SYS_exit, 0);
}
