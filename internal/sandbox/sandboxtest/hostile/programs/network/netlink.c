// Talks to the kernel by netlink, of every kind.
// kernel: shared
// weaken: system-call filter
static void network_netlink(void) {
	for (int protocol = 0; protocol < 32; protocol++) {
		REFUSED("netlink", socket(AF_NETLINK, SOCK_RAW, protocol));
		REFUSED("netlink datagram", socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, protocol));
	}
}
