// Executes another program from a thread: the process stays, and everything of it is another's.
// ends: anyhow
static void *lies_executed_by_thread_do(void *none) {
	tried("execute");
	say_done("%d", tried_steps);
	execl("/bin/sh", "sh", "-c", "echo from the thread > executed; exit 9", (char *)0);
	_exit(97);
}
static void lies_executed_by_thread(void) {
	for (int i = 0; i < 4; i++) if (fork() == 0) { sleep(60); _exit(0); }
	pthread_t t;
	pthread_create(&t, 0, lies_executed_by_thread_do, 0);
	for (;;) pause();
}
