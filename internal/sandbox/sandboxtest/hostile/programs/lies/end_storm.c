// Says that it is done with every thread of every process, by the call that means it, as often as it can.
// ends: timeout
// timeout: 500ms
static void *lies_end_storm_say(void *code) {
	for (;;) syscall(SYS_nfsservctl, code, 0, 0);
}
static void lies_end_storm(void) {
	tried("storm");
	for (int i = 0; i < 20; i++)
		if (fork() == 0) for (;;) syscall(SYS_nfsservctl, i, 0, 0);
	for (int i = 0; i < 8; i++) pthread_create(&(pthread_t){0}, 0, lies_end_storm_say, (void *)7);
	for (;;) pause();
}
