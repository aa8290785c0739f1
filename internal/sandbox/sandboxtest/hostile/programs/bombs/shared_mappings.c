// Takes memory that no process has mapped but for a page, or not at all: behind shared mappings.
// ends: anyhow
// memory: 128
// weaken: join control group
static int bombs_shared_mappings_fill(int flags, int fd) {
	size_t size = 16 << 20;
	int n = 0;
	for (int i = 0; i < 40; i++) {
		char *m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
		if (m == MAP_FAILED) break;
		memset(m, 1, size);
		madvise(m, size, MADV_DONTNEED);
		if (i % 2) munmap(m + 4096, size - 4096);
		n++;
	}
	return n;
}
/* Many small ones, of which a page each stays, under other names. */
static int bombs_shared_mappings_many(void) {
	size_t size = 4 << 20;
	int n = 0;
	for (; n < 160; n++) {
		char *m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (m == MAP_FAILED) break;
		prctl(0x53564d41, 0, m, size, "other");
		memset(m, 1, size);
		munmap(m + 4096, size - 4096);
		madvise(m, 4096, MADV_DONTNEED);
		usleep(1000);
	}
	sleep(1);
	return n;
}
static void bombs_shared_mappings(void) {
	tried("many");
	pid_t many = fork();
	if (many == 0) _exit(bombs_shared_mappings_many());
	int ended;
	waitpid(many, &ended, 0);
	if (WIFEXITED(ended) && WEXITSTATUS(ended) == 160) breach("640 MiB in small ones on 128");
	tried("anonymous");
	pid_t pid = fork();
	if (pid == 0) _exit(bombs_shared_mappings_fill(MAP_ANONYMOUS, -1));
	int status;
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 40) breach("640 MiB on 128");
	tried("of /dev/zero");
	int n = bombs_shared_mappings_fill(0, open("/dev/zero", O_RDWR));
	tried("%d", n);
	if (n == 40) breach("640 MiB of /dev/zero on 128");
}
