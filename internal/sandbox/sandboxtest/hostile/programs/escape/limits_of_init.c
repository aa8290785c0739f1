// Changes limits and priority of pid 1, which is the same user's.
// kernel: shared
// weaken: system-call filter
static void escape_limits_of_init(void) {
	for (int kind = 0; kind < 16; kind++) {
		// A limit of nothing could end pid 1 before this program has said a word, so one less is enough where
		// the limit can be read.
		struct rlimit limit = {0, 0}, now = {0, 0};
		if (syscall(SYS_prlimit64, 1, kind, 0, &limit) == 0 && limit.rlim_max > 0) limit.rlim_max--;
		if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
		rlim_t wanted = limit.rlim_max;
		errno = 0;
		long result = syscall(SYS_prlimit64, 1, kind, &limit, 0);
		tried("limit %d of pid 1: %s", kind, strerror(errno));
		if (syscall(SYS_prlimit64, 1, kind, 0, &now)) continue;
		if (result == 0 && now.rlim_max == wanted && wanted != 0) breach("limit %d of pid 1 was set", kind);
	}
	for (int i = 0; i < 20000; i++) kill(1, SIGCHLD), kill(1, 34);
	tried("a storm of signals");
}
