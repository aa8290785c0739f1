// Gives the kernel advice about memory that harms others: poison, offline, merge with theirs, throw out.
// kernel: shared
// weaken: system-call filter
static void escape_advice(void) {
	char *page = mmap(0, 1 << 21, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(page, 1, 1 << 21);
	REFUSED("poison", madvise(page, 4096, 100));
	REFUSED("offline", madvise(page, 4096, 101));
	REFUSED("lock all memory", (mlockall(MCL_CURRENT | MCL_FUTURE), mlock2(page, 1 << 21, 0)));
	REFUSED("huge pages of the machine", mmap(0, 1 << 21, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) == MAP_FAILED ? -1 : 0);
	REFUSED("address nothing", mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? -1 : 0);
	REFUSED("advice to pid 1", syscall(440, 1, &(struct { void *p; size_t n; }){page, 4096}, 1, 21, 0));
	REFUSED_AS("merge with others", EINVAL, madvise(page, 1 << 21, 12));
	char *file = mmap(0, 4096, PROT_READ, MAP_SHARED, open("/usr/bin/python3", O_RDONLY), 0);
	REFUSED_AS("throw a file out", EINVAL, madvise(file, 4096, 21));
	REFUSED_AS("huge pages in a file", EINVAL, madvise(file, 4096, 25));
	int merged = open("/proc/self/ksm_merging_pages", O_RDONLY);
	char text[16] = "0";
	madvise(page, 1 << 21, 12);
	prctl(67, 1, 0, 0, 0);
	usleep(300000);
	if (merged >= 0 && read(merged, text, 15) > 0 && atoi(text) > 0) breach("%s pages are merged with those of others", text);
	tried("merge");
}
