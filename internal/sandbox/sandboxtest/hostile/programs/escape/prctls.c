// Asks for every right and state of a process that prctl can change.
static void escape_prctls(void) {
	REFUSED("forget no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	tried("no_new_privs");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) breach("it may gain privileges");
	REFUSED("leave the filter", prctl(PR_SET_SECCOMP, 0, 0, 0, 0));
	for (int c = 0; c < 64; c++) {
		tried("capability %d", c);
		if (prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 1) breach("capability %d could be had", c);
		if (prctl(47, 2, c, 0, 0) == 0) breach("capability %d is ambient", c);
	}
	REFUSED("securebits", prctl(PR_SET_SECUREBITS, 0x2f, 0, 0, 0));
	REFUSED("another program's file", prctl(PR_SET_MM, 13, 0, 0, 0));
	for (int i = 1; i < 14; i++) REFUSED("where memory lies", prctl(PR_SET_MM, i, 4096, 0, 0));
	REFUSED("input and output first", prctl(57, 1, 0, 0, 0));
	REFUSED("a core with pid 1", prctl(62, 2, 1, 0, 0));
	REFUSED("a core with everybody", prctl(62, 2, 1, 2, 0));
	unsigned long cookie = 0;
	REFUSED("the core of pid 1", prctl(62, 0, 1, 0, &cookie));
}
