// Takes memory for the tables of memory with many processes, of which none has much.
// ends: anyhow
// memory: 128
// weaken: join control group
static void bombs_page_tables_of_many(void) {
	tried("map");
	for (int i = 0; i < 12; i++)
		if (fork() == 0) {
			for (int n = 0; n < 3; n++) {
				char *m = mmap(0, 1UL << 34, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
				if (m == MAP_FAILED) _exit(1);
				madvise(m, 1UL << 34, MADV_NOHUGEPAGE);
				for (size_t at = 0; at < 1UL << 34; at += 2 << 20) { volatile char c = m[at]; }
			}
			write(1, "x", 1);
			sleep(1);
			_exit(0);
		}
	int status, well = 0;
	while (wait(&status) > 0) well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	tried("%d processes lived", well);
	if (well == 12) breach("1152 MiB of tables on 128");
}
