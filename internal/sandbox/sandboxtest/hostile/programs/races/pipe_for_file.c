// Puts a pipe, a socket and a folder in the place of a file and back, as quickly as it can be done.
// ends: anyhow
// timeout: 2s
static void races_pipe_for_file(void) {
	static const char *others[] = {"pipe", "folder", "link"};
	mkfifo("pipe", 0600); mkdir("folder", 0700); symlink("/etc/passwd", "link");
	close(open("aa", O_CREAT | O_WRONLY, 0600));
	tried("exchange");
	for (int i = 0; i < 3; i++)
		if (fork() == 0) { setsid(); for (;;) syscall(SYS_renameat2, AT_FDCWD, "aa", AT_FDCWD, others[i], 2); }
	for (int i = 0; i < 300; i++) { char n[20]; sprintf(n, "b%03d", i); close(open(n, O_CREAT | O_WRONLY, 0600)); }
}
