// Types into the terminal of the process that started it.
// kernel: shared
// weaken: system-call filter
static void escape_terminal(void) {
	unsigned long requests[] = {0x5412, 0x541C, 0x5423, 0x100005412, 0xffffffff00005412, 0x10000541C};
	int fds[] = {0, 1, 2, open("/dev/tty", O_RDWR), open("/dev/ptmx", O_RDWR), open("/dev/console", O_RDWR), open("/dev/pts/0", O_RDWR)};
	for (int f = 0; f < 7; f++) {
		if (f > 2) { tried("terminal %d", f); if (fds[f] >= 0) breach("there is a terminal"); }
		for (int r = 0; r < 6; r++) {
			errno = 0;
			long result = syscall(SYS_ioctl, fds[f], requests[r], "x");
			tried("ioctl %#lx: %s", requests[r], strerror(errno));
			if (result == 0 || errno != EPERM) breach("the filter let %#lx through", requests[r]);
		}
	}
}
