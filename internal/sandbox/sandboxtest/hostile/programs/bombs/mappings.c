// Makes as many mappings as the kernel counts, in as many processes as it gets.
// ends: anyhow
// timeout: 5s
static void bombs_mappings(void) {
	tried("map");
	for (int i = 0; i < 30; i++) if (fork() == 0) break;
	for (long n = 0; n < 70000; n++)
		if (mmap(0, 4096, n % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
	sleep(1);
}
