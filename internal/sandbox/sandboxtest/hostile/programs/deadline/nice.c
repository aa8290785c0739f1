// Makes itself and all of its children yield to everybody else, in sessions of their own, and computes.
// ends: timeout
// timeout: 500ms
// processes: 140
static void deadline_nice(void) {
	tried("yield");
	for (int i = 0; i < 120; i++) if (fork() == 0) { setsid(); nice(19); for (;;); }
	nice(19);
	for (;;);
}
