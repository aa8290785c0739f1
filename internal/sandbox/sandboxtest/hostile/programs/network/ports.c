// Tries the ports of its own loopback: nobody is there, not even the service that started it.
// weaken: network namespace, bring up loopback
static void network_ports(void) {
	int open_ports = 0;
	for (int n = 0; n < 16384 && !open_ports; n++) { /* the bait first: where it answers nobody else is disturbed */
		int port = n ? n : atoi(getenv("H_TCP"));
		struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		int s = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(s, (void *)&a, sizeof a) == 0) {
			struct sockaddr_in mine;
			socklen_t size = sizeof mine;
			getsockname(s, (void *)&mine, &size);
			if (mine.sin_port != a.sin_port && open_ports++ < 1) breach("port %d answers", port); /* the same port: it met itself */
		}
		close(s);
	}
	tried("16384 ports");
}
