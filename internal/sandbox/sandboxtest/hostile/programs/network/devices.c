// Makes network devices, addresses and routes for itself.
// kernel: shared
// weaken: system-call filter
#include <net/if.h>
#include <linux/sockios.h>
static void network_devices(void) {
	struct ifreq r = {0};
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	strcpy(r.ifr_name, "lo");
	struct sockaddr_in *a = (void *)&r.ifr_addr;
	a->sin_family = AF_INET;
	inet_pton(AF_INET, "8.8.8.8", &a->sin_addr);
	REFUSED("address", ioctl(s, SIOCSIFADDR, &r));
	r.ifr_flags = IFF_UP | IFF_PROMISC;
	REFUSED("flags", ioctl(s, SIOCSIFFLAGS, &r));
	r.ifr_mtu = 100;
	REFUSED("mtu", ioctl(s, SIOCSIFMTU, &r));
	REFUSED("route", ioctl(s, SIOCADDRT, &r));
	REFUSED("bridge", ioctl(s, SIOCBRADDBR, "br0"));
	REFUSED("vlan", ioctl(s, SIOCSIFVLAN, &r));
	REFUSED("tunnel", ioctl(s, 0x89f1, &r));
	REFUSED("arp", ioctl(s, SIOCSARP, &r));
	REFUSED("tun", open("/dev/net/tun", O_RDWR));
	REFUSED("netlink for routes", socket(AF_NETLINK, SOCK_RAW, 0));
	struct if_nameindex { unsigned index; char *name; };
	for (int i = 1; i < 50; i++) {
		r.ifr_ifindex = i;
		if (ioctl(s, SIOCGIFNAME, &r) == 0) { tried("device %s", r.ifr_name); if (strcmp(r.ifr_name, "lo")) breach("there is a device %s", r.ifr_name); }
	}
}
