// Reads what the kernel and the loader left above its stack: names, environments and arguments of who started it.
static int secrets_start_of_stack_is(const volatile char *p) {
	static const char shifted[] = "bjsmpdl.dbobsz."; /* never in one piece in our own memory */
	for (int i = 0; i < 15; i++) if (p[i] + 1 != shifted[i]) return 0;
	return 1;
}
static void secrets_start_of_stack(void) {
	char line[300];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps)) {
		unsigned long from, to;
		char rights[5];
		if (!strstr(line, "[stack]") && !strstr(line, "[heap]") && !strstr(line, "[vvar") && !strstr(line, "[vdso]")) continue;
		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || rights[0] != 'r' || strstr(line, "[vvar")) continue;
		for (char *p = (char *)from; p < (char *)to - 64; p++) {
			if (secrets_start_of_stack_is(p)) breach("the secret is at %p", p);
			if (!memcmp(p, "AIRLOCK_", 8) && !memcmp(p + 8, "HOSTILE", 7)) breach("an environment of the host is at %p", p);
		}
		tried("%.60s", strchr(line, '[') ? strchr(line, '[') : line);
	}
}
