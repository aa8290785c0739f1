// Takes memory in a child that is gone before the end, so that the account of the last look is small.
static void lies_memory(void) {
	if (fork() == 0) {
		char *p = mmap(0, 100 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		for (long i = 0; i < 100 << 20; i += 4096) p[i] = 1;
		usleep(200000);
		_exit(0);
	}
	wait(0);
	tried("100 MiB in a child");
}
