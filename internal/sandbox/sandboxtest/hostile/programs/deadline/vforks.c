// Waits in chains of vfork, each of which stands still until the next one ends; the last computes.
// ends: timeout
// timeout: 500ms
// processes: 140
static void deadline_vforks(void) {
	tried("vfork");
	for (int chain = 0; chain < 6; chain++)
		if (fork() == 0) {
			nice(19);
			for (int i = 0; i < 18; i++) if (vfork() != 0) break;
			for (;;);
		}
	for (;;);
}
