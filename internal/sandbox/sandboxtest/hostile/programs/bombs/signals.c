// Storms of signals between all of its processes.
// cell: anyhow
// ends: timeout
// timeout: 500ms
static void nothing(int n) {}
static void bombs_signals(void) {
	tried("storm");
	for (int i = 1; i < 64; i++) signal(i, nothing);
	for (int i = 0; i < 30; i++) fork();
	for (;;) kill(-1, SIGUSR1), kill(0, 40);
}
