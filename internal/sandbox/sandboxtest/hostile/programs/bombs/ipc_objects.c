// Makes message queues, semaphores and segments of System V until it is refused, and fills them.
// kernel: shared
// ends: anyhow
static void bombs_ipc_objects(void) {
	struct { long kind; char text[8000]; } m = {1};
	long queues = 0, sets = 0, segments = 0;
	for (; queues < 100000; queues++) {
		int q = syscall(SYS_msgget, IPC_PRIVATE, 0600 | IPC_CREAT);
		if (q < 0) break;
		syscall(SYS_msgsnd, q, &m, sizeof m.text, IPC_NOWAIT);
		syscall(SYS_msgsnd, q, &m, sizeof m.text, IPC_NOWAIT);
	}
	tried("%ld queues: %s", queues, strerror(errno));
	while (sets < 100000 && semget(IPC_PRIVATE, 1000, 0600 | IPC_CREAT) >= 0) sets++;
	tried("%ld sets: %s", sets, strerror(errno));
	while (segments < 100000 && shmget(IPC_PRIVATE, 1 << 20, 0600 | IPC_CREAT) >= 0) segments++;
	tried("%ld segments: %s", segments, strerror(errno));
}
