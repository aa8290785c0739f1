// Uses up a small share of the processors with very many, so that nothing is left to die with.
// ends: timeout
// timeout: 2s
// processes: 140
// cpus: 0.05
static void deadline_no_share_left(void) {
	tried("compute");
	for (int i = 0; i < 100; i++) if (fork() == 0) { nice(19); char *m = malloc(1 << 20); for (;;) memset(m, 1, 1 << 20); }
	for (;;);
}
