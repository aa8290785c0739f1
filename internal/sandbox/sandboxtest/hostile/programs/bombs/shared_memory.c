// Takes memory that is no process's: shared mappings that nobody has mapped any more.
// ends: anyhow
// memory: 128
static void bombs_shared_memory(void) {
	size_t size = 16 << 20;
	int n = 0;
	for (int i = 0; i < 40; i++) {
		tried("segment");
		int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
		if (id < 0) break;
		void *m = shmat(id, 0, 0);
		if (m == (void *)-1) break;
		memset(m, 1, size);
		shmdt(m);
		n++;
	}
	if (n == 40) breach("640 MiB of segments on 128");
}
