// Takes memory for the tables of memory: a page in each of many regions.
// ends: anyhow
// memory: 128
static void bombs_page_tables(void) {
	tried("map");
	int n = 0;
	for (int i = 0; i < 60; i++) {
		char *m = mmap(0, 1UL << 34, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (m == MAP_FAILED) break;
		madvise(m, 1UL << 34, MADV_NOHUGEPAGE);
		for (size_t at = 0; at < 1UL << 34; at += 2 << 20) { volatile char c = m[at]; n++; }
	}
	tried("%d tables", n);
	if (n >= 60 << 13) breach("%d page tables", n); /* 1920 MiB */
}
