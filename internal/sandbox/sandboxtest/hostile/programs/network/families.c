// Makes a socket of every family and type, and pairs of them.
// kernel: shared
// weaken: system-call filter
static void network_families(void) {
	for (int family = 0; family < 50; family++) {
		if (family == AF_UNIX) continue;
		for (int type = 1; type <= 10; type++) {
			int pair[2];
			REFUSED_AS("pair", EAFNOSUPPORT, socketpair(family, type, 0, pair));
			REFUSED_AS("pair with flags", EAFNOSUPPORT, socketpair(family, type | SOCK_CLOEXEC, 0, pair));
			if (family == AF_INET || family == AF_INET6) continue;
			REFUSED_AS("socket", EAFNOSUPPORT, socket(family, type, 0));
			REFUSED_AS("socket with high bits", EAFNOSUPPORT, syscall(SYS_socket, 1L << 32 | family, type, 0));
		}
	}
	REFUSED_AS("unix pair under another name", EAFNOSUPPORT, syscall(SYS_socket, 1L << 32 | AF_NETLINK, SOCK_RAW, 0));
}
