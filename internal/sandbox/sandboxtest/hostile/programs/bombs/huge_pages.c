// Takes the huge pages that the host has set aside, which no limit of memory counts.
// kernel: shared
// weaken: system-call filter
static void bombs_huge_pages(void) {
	static const int shifts[] = {0, 21, 30};
	for (int i = 0; i < 3; i++) {
		int size = shifts[i] << 26;
		REFUSED_AS("private", EPERM, mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size, -1, 0));
		REFUSED_AS("shared", EPERM, mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | size, -1, 0));
		REFUSED("a file", syscall(SYS_memfd_create, "x", 4 | size));
		REFUSED("a segment", shmget(IPC_PRIVATE, 2 << 20, IPC_CREAT | 04000 | size | 0600));
	}
}
