// Makes children that are its own brothers: its father, who waits for it, sees them end instead.
// ends: anyhow
static void lies_clone_parent(void) {
	for (int i = 0; i < 20; i++) {
		long pid = syscall(SYS_clone, CLONE_PARENT | (i % 2 ? SIGCHLD : 0), 0, 0, 0, 0);
		if (pid == 0) { if (i % 3) _exit(i); raise(SIGKILL); }
		tried("brother %d: %s", i, pid < 0 ? strerror(errno) : "made");
	}
	usleep(300000);
	int file = open("still-here", O_WRONLY | O_CREAT, 0600);
	if (write(file, "x", 1) != 1) _exit(97);
	say_done("%d", tried_steps);
	_exit(7);
}
