// Hides what it asks for from the filter: the upper half of a register says something else than the lower.
// kernel: shared
// weaken: system-call filter
static void escape_upper_halves(void) {
	const long high[] = {1L << 32, 0x7fffffffL << 32, -1L << 32};
	for (int i = 0; i < 3; i++) {
		long h = high[i];
		errno = 0;
		long pid = syscall(SYS_clone, h | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
		if (pid == 0) _exit(0);
		tried("clone: %s", strerror(errno));
		if (pid > 0) breach("clone with an upper half made a user namespace");
		REFUSED("unshare", syscall(SYS_unshare, h | CLONE_NEWUSER));
		REFUSED("socket", syscall(SYS_socket, h | AF_NETLINK, h | SOCK_RAW, h | 0));
		REFUSED("socket of a cipher", syscall(SYS_socket, h | 38, h | SOCK_SEQPACKET, 0));
		REFUSED("raw socket", syscall(SYS_socket, h | AF_INET, h | SOCK_RAW, h | IPPROTO_ICMP));
		REFUSED("type into a terminal", syscall(SYS_ioctl, 0, h | TIOCSTI, "x"));
		REFUSED("a device", syscall(SYS_mknodat, AT_FDCWD, "/tmp/upper", h | S_IFCHR | 0666, h | 0x103));
		REFUSED("layout", syscall(SYS_personality, h | 0x0040000));
		REFUSED("lease", syscall(SYS_fcntl, 0, h | F_SETLEASE, F_WRLCK));
		REFUSED("ptrace", syscall(SYS_ptrace, h | 16, 1, 0, 0));
		struct sock_ { unsigned short n; void *p; } program = {0, 0};
		int s = socket(AF_UNIX, SOCK_DGRAM, 0);
		REFUSED("a packet filter", syscall(SYS_setsockopt, s, h | SOL_SOCKET, h | 26, &program, sizeof program));
		close(s);
		struct rlimit none = {0, 0};
		if (syscall(SYS_prlimit64, 0, h | RLIMIT_CORE, &none, 0) == 0) {
			struct rlimit now;
			getrlimit(RLIMIT_CORE, &now);
			tried("core files");
			if (now.rlim_cur != 1) breach("its core files may have %ld bytes", (long)now.rlim_cur);
		} else tried("core files: %s", strerror(errno));
		REFUSED("limits of pid 1", syscall(SYS_prlimit64, h | 1, RLIMIT_NOFILE, &none, 0));
	}
}
