// Fills the buffers of sockets between its own processes.
// ends: anyhow
// memory: 128
static void bombs_unix_sockets(void) {
	static char data[65536];
	long *sent = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	tried("fill");
	for (int i = 0; i < 40; i++)
		if (fork() == 0) {
			for (;;) {
				int pair[2], big = 1 << 24;
				if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair)) { write(1, "x", 1); sleep(1); _exit(0); }
				for (int e = 0; e < 2; e++) { setsockopt(pair[e], SOL_SOCKET, SO_SNDBUF, &big, sizeof big); for (ssize_t n; (n = write(pair[e], data, sizeof data)) > 0;) if (__atomic_add_fetch(sent, n, __ATOMIC_RELAXED) > 640 << 20) { breach("640 MiB wait in sockets, on 128"); _exit(1); } }
			}
		}
	int status, well = 0;
	while (wait(&status) > 0) well += WIFEXITED(status);
	if (well == 40) breach("every process filled a thousand sockets");
}
