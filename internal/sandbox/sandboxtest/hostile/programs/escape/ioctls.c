// Tells file systems and devices what only their owner may: freeze, trim, shut down, forget randomness.
static void escape_ioctls(void) {
	static const struct { const char *name; unsigned long request; } requests[] = {
		{"FIFREEZE", 0xc0045877}, {"FITHAW", 0xc0045878}, {"FITRIM", 0xc0185879}, {"shut down", 0x8004587d}, {"FIBMAP", 1},
		{"label", 0x41009432}, {"move extents", 0xc028660f}, {"resize", 0x40086610}, {"swap boot", 0x6611}, {"encrypt", 0x800c6613},
		{"verity", 0x40806685}, {"add randomness", 0x40085203}, {"clear randomness", 0x5206}, {"zap randomness", 0x5204},
		{"count randomness", 0x40045201}, {"reseed", 0x5207}, {"console", 0x541d}, {"eject", 0x5309}, {"block flush", 0x1261}, {"block re-read", 0x125f}};
	static const char *files[] = {"/usr", "/usr/bin/env", "/etc/passwd", "/workspace", "/tmp", "/", "/dev/null", "/dev/urandom", "/dev/random", "/dev/zero", "/proc/self", "/opt/airlock"};
	int value[64] = {0};
	for (unsigned f = 0; f < sizeof files / sizeof *files; f++) {
		int fd = open(files[f], O_RDONLY);
		if (fd < 0) continue;
		for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
			char what[100];
			snprintf(what, sizeof what, "%s of %s", requests[i].name, files[f]);
			if (strstr(what, "reseed") || strstr(what, "label")) { ioctl(fd, requests[i].request, value); tried("%s", what); continue; }
			REFUSED(what, ioctl(fd, requests[i].request, value));
		}
		close(fd);
	}
}
