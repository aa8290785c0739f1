// Leaves what it has sent in sockets whose sender is closed, or that are on their way in others.
// ends: anyhow
// memory: 128
static void bombs_closed_sockets(void) {
	static char data[65536];
	long *sent = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	tried("fill");
	for (int i = 0; i < 30; i++)
		if (fork() == 0) {
			for (;;) {
				int pair[2], carrier[2], big = 1 << 24;
				if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair)) { write(1, "x", 1); sleep(1); _exit(0); }
				setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
				for (ssize_t n; (n = write(pair[0], data, sizeof data)) > 0;)
					if (__atomic_add_fetch(sent, n, __ATOMIC_RELAXED) > 640 << 20) { breach("640 MiB wait in sockets, on 128"); _exit(1); }
				close(pair[0]);
				if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, carrier)) continue;
				char control[CMSG_SPACE(sizeof(int))] = {0};
				struct iovec part = {data, 1};
				struct msghdr message = {0, 0, &part, 1, control, sizeof control};
				struct cmsghdr *header = CMSG_FIRSTHDR(&message);
				header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
				memcpy(CMSG_DATA(header), &pair[1], sizeof(int));
				if (sendmsg(carrier[0], &message, 0) == 1) close(pair[1]);
				close(carrier[0]);
			}
		}
	while (wait(0) > 0);
	tried("%ld MiB", *sent >> 20);
}
