// Waits for a child that shares its memory and has stopped: neither can be interrupted.
// ends: timeout
// timeout: 500ms
static void bombs_vfork(void) {
	tried("vfork");
	if (vfork() == 0) { kill(getpid(), SIGSTOP); for (;;) pause(); }
	for (;;) pause();
}
