// Fills pipes, made as large as they get.
// ends: anyhow
// memory: 128
// needs: groups
static void bombs_pipes(void) {
	static char data[65536];
	tried("fill");
	for (int i = 0; i < 40; i++)
		if (fork() == 0)
			for (;;) {
				int p[2];
				if (pipe2(p, O_NONBLOCK)) { sleep(1); _exit(0); }
				fcntl(p[1], F_SETPIPE_SZ, 1 << 20);
				while (write(p[1], data, sizeof data) > 0);
			}
	int status, well = 0;
	while (wait(&status) > 0) well += WIFEXITED(status);
	tried("%d processes lived", well);
	if (well == 40) breach("every process filled five hundred pipes");
}
