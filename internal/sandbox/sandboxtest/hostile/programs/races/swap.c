// The same as quickly as it can be done, by exchange, from several processes.
static void races_swap(void) {
	symlink(getenv("H_FILE"), "/workspace/link");
	close(open("/workspace/file", O_CREAT | O_WRONLY, 0600));
	mkfifo("/workspace/pipe", 0600);
	tried("swap");
	for (int i = 0; i < 6; i++)
		if (fork() == 0) {
			setsid();
			for (;;) {
				syscall(SYS_renameat2, AT_FDCWD, "/workspace/link", AT_FDCWD, "/workspace/file", 2);
				syscall(SYS_renameat2, AT_FDCWD, "/workspace/pipe", AT_FDCWD, "/workspace/file", 2);
			}
		}
	usleep(50000);
}
