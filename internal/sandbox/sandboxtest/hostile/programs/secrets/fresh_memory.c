// Looks at memory before it has written to it, of every kind that the kernel gives.
static int dirty(const char *what, const unsigned char *m, size_t size) {
	for (size_t i = 0; i < size; i++)
		if (m[i]) { breach("%s is not empty at %zu", what, i); return 1; }
	tried("%s: %zu bytes", what, size);
	return 0;
}
static void secrets_fresh_memory(void) {
	size_t size = 32 << 20;
	unsigned char *m = mmap(0, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	dirty("private", m, size);
	size = 4 << 20;
	m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 4095; i < size; i += 8192) m[i] = 0; /* let pages come by writing, too */
	dirty("shared", m, size);
	int files[] = {open("/tmp/fresh", O_RDWR | O_CREAT, 0600), open("/dev/shm/fresh", O_RDWR | O_CREAT, 0600), open("/workspace/fresh", O_RDWR | O_CREAT, 0600), open("/tmp", O_TMPFILE | O_RDWR, 0600)};
	for (int i = 0; i < 4; i++) {
		if (files[i] < 0 || fallocate(files[i], 0, 0, 4 << 20)) { tried("no room"); continue; }
		dirty("file", mmap(0, 4 << 20, PROT_READ, MAP_SHARED, files[i], 0), 4 << 20);
	}
	int id = shmget(IPC_PRIVATE, 4 << 20, IPC_CREAT | 0600);
	if (id >= 0) dirty("System V segment", shmat(id, 0, 0), 4 << 20);
	unlink("/workspace/fresh");
}
