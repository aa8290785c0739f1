// Makes raw, packet and ICMP sockets.
// kernel: shared
static void network_raw(void) {
	int protocols[] = {0, IPPROTO_ICMP, IPPROTO_RAW, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP, IPPROTO_UDPLITE, IPPROTO_DCCP, 262, 58, 0x300, 0x0003};
	for (unsigned i = 0; i < sizeof protocols / sizeof *protocols; i++) {
		REFUSED("raw", socket(AF_INET, SOCK_RAW, protocols[i]));
		REFUSED("raw 6", socket(AF_INET6, SOCK_RAW, protocols[i]));
		REFUSED("packet", socket(AF_PACKET, SOCK_RAW, htons(protocols[i])));
		REFUSED("packet datagram", socket(AF_PACKET, SOCK_DGRAM, htons(protocols[i])));
		REFUSED("packet, old", socket(AF_INET, SOCK_PACKET, protocols[i]));
		REFUSED("seqpacket", socket(AF_INET, SOCK_SEQPACKET, protocols[i]));
		REFUSED("rdm", socket(AF_INET, SOCK_RDM, protocols[i]));
		REFUSED("dccp", socket(AF_INET, 6, protocols[i]));
	}
	REFUSED("ping", socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
	REFUSED("ping 6", socket(AF_INET6, SOCK_DGRAM, 58));
	REFUSED("mptcp", socket(AF_INET, SOCK_STREAM, 262));
	REFUSED("sctp", socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	REFUSED("udplite", socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE));
	REFUSED("l2tp", socket(AF_INET, SOCK_DGRAM, 115));
}
