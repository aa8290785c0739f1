// Leaves dead processes unburied, as many as it gets.
// kernel: shared
static void bombs_zombies(void) {
	int n = 0;
	for (; n < 20000; n++) {
		pid_t p = fork();
		if (p == 0) _exit(0);
		if (p < 0) break;
	}
	tried("%d dead", n);
	if (n > 200) breach("%d dead processes", n);
}
