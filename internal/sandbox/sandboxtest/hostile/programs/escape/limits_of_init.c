// Changes limits and priority of pid 1, which is the same user's, until it dies.
// weaken: system-call filter
static void escape_limits_of_init(void) {
	for (int kind = 0; kind < 16; kind++) {
		struct rlimit limit = {0, 0};
		errno = 0;
		long result = syscall(SYS_prlimit64, 1, kind, &limit, 0);
		tried("limit %d of pid 1: %s", kind, strerror(errno));
		struct rlimit now = {9, 9};
		if (syscall(SYS_prlimit64, 1, kind, 0, &now)) continue;
		if (result == 0 && now.rlim_max == 0 && kind != RLIMIT_MSGQUEUE && kind != RLIMIT_NICE && kind != RLIMIT_RTPRIO) breach("limit %d of pid 1 was set", kind);
	}
	for (int i = 0; i < 20000; i++) kill(1, SIGCHLD), kill(1, 34);
	tried("a storm of signals");
}
