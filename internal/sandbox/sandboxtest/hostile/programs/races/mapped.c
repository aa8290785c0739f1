// Writes through a mapping into a file that is collected.
static void races_mapped(void) {
	int fd = open("/workspace/mapped", O_CREAT | O_RDWR, 0600);
	ftruncate(fd, 1 << 20);
	volatile char *m = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	tried("map");
	for (int i = 0; i < 4; i++)
		if (fork() == 0) { setsid(); for (int n = 0;; n++) m[n & 0xfffff]++; }
	usleep(50000);
}
