// Moves the memory of others and itself to other nodes, and takes what is pinned.
// kernel: shared
// weaken: system-call filter
static void escape_memory_of_others(void) {
	unsigned long mask = 1;
	void *page = main;
	int node = 0, status = 0;
	REFUSED("migrate_pages of init", syscall(SYS_migrate_pages, 1, 64, &mask, &mask));
	REFUSED("migrate_pages", syscall(SYS_migrate_pages, 0, 64, &mask, &mask));
	REFUSED("move_pages", syscall(SYS_move_pages, 0, 1, &page, 0, &status, 0));
	REFUSED("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE | 0x100000));
	REFUSED("huge pages", shmget(IPC_PRIVATE, 1 << 21, IPC_CREAT | SHM_HUGETLB | 0600));
}
