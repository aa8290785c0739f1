// Takes names that look like another state in a list of processes.
static void outlive_names(void) {
	tried("leave");
	const char *names[] = {"x) Z 1 1 1", ") T 0 0 0 0", "(sd-pam)", "a) T ", "\n) T\n"};
	for (int i = 0; i < 5; i++) {
		prctl(PR_SET_NAME, names[i]);
		if (fork() == 0) { setsid(); for (;;) pause(); }
	}
}
