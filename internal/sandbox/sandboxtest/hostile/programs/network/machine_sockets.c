// Talks to the hypervisor, to the kernel's ciphers and to bluetooth.
// weaken: system-call filter
static void network_machine_sockets(void) {
	struct { unsigned short family, reserved; unsigned port, cid; unsigned char zero[4]; } host = {40, 0, 1024, 2};
	for (int type = 1; type <= 5; type++) {
		int s = socket(40, type, 0);
		tried("vsock %d: %s", type, strerror(errno));
		if (s >= 0) breach("vsock: connect gives %d", connect(s, (void *)&host, 16));
		REFUSED("alg", socket(38, type, 0));
		REFUSED("rxrpc", socket(33, type, AF_INET));
		REFUSED("bluetooth", socket(31, type, 0));
		REFUSED("can", socket(29, type, 1));
		REFUSED("tipc", socket(30, type, 0));
		REFUSED("xdp", socket(44, type, 0));
		REFUSED("smc", socket(43, type, 0));
		REFUSED("key", socket(15, type, 2));
		REFUSED("qipcrtr", socket(42, type, 0));
		REFUSED("kcm", socket(41, type, 0));
		REFUSED("nfc", socket(39, type, 0));
		REFUSED("rds", socket(21, type, 0));
		REFUSED("llc", socket(26, type, 0));
		REFUSED("ax25", socket(3, type, 0));
		REFUSED("x25", socket(9, type, 0));
	}
}
