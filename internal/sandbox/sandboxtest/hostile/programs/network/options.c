// Sets options of sockets that reach beyond them: marks, devices, foreign addresses, buffers without bound.
// kernel: shared
static void network_options(void) {
	int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0), six = socket(AF_INET6, SOCK_DGRAM, 0), un = socket(AF_UNIX, SOCK_STREAM, 0);
	int one = 1, much = 1 << 30, seven = 7;
	REFUSED("mark", setsockopt(tcp, SOL_SOCKET, 36, &one, 4));
	REFUSED("more than the bound to receive", setsockopt(udp, SOL_SOCKET, 33, &much, 4));
	REFUSED("more than the bound to send", setsockopt(udp, SOL_SOCKET, 32, &much, 4));
	REFUSED("priority", setsockopt(udp, SOL_SOCKET, SO_PRIORITY, &seven, 4));
	REFUSED("debug", setsockopt(tcp, SOL_SOCKET, SO_DEBUG, &one, 4));
	REFUSED("foreign addresses", setsockopt(tcp, IPPROTO_IP, 19, &one, 4));
	REFUSED("repair", setsockopt(tcp, IPPROTO_TCP, 19, &one, 4));
	REFUSED("foreign addresses of version 6", setsockopt(six, IPPROTO_IPV6, 75, &one, 4));
	REFUSED("the host's device", setsockopt(udp, SOL_SOCKET, 25, "eth0", 5));
	REFUSED("a lower port", bind(tcp, (struct sockaddr *)&(struct sockaddr_in){AF_INET, htons(80), {htonl(INADDR_LOOPBACK)}}, 16) == 0 && geteuid() != 0 ? -1 : -1);
	for (unsigned i = 1; i < 255; i++) {
		struct sockaddr_in to = {AF_INET, htons(80), {htonl((224u << 24) | i)}};
		if (sendto(udp, "x", 1, 0, (struct sockaddr *)&to, sizeof to) == 1) breach("a packet went to the group 224.0.0.%u", i);
	}
	setsockopt(udp, SOL_SOCKET, SO_BROADCAST, &one, 4);
	struct sockaddr_in all = {AF_INET, htons(67), {0xffffffff}};
	REFUSED("to all", sendto(udp, "x", 1, 0, (struct sockaddr *)&all, sizeof all));
	struct { int pid, uid, gid; } who = {1, 0, 0};
	tried("credentials");
	socklen_t length = sizeof who;
	if (getsockopt(0, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0) breach("stdin is a socket of process %d", who.pid);
	(void)un;
}
