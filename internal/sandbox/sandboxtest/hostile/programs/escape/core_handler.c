// Gets a limit of core files at which the kernel starts the host's handler for crashes.
// kernel: shared
// weaken: system-call filter
static void escape_core_handler(void) {
	struct rlimit none = {0, 0}, many = {1 << 20, 1 << 20}, now = {9, 9};
	setrlimit(RLIMIT_CORE, &none);
	tried("setrlimit");
	syscall(SYS_prlimit64, getpid(), RLIMIT_CORE, &none, 0);
	tried("prlimit64");
#ifdef SYS_setrlimit
	syscall(SYS_setrlimit, RLIMIT_CORE, &none);
	syscall(SYS_setrlimit, RLIMIT_CORE | 1UL << 32, &none);
#endif
	syscall(SYS_prlimit64, 0, RLIMIT_CORE | 1UL << 32, &none, 0);
	tried("with high bits");
	setrlimit(RLIMIT_CORE, &many);
	tried("more");
	if (syscall(SYS_prlimit64, 0, RLIMIT_CORE, 0, &now) || now.rlim_cur != 1 || now.rlim_max != 1)
		breach("the limit is %ld of %ld", (long)now.rlim_cur, (long)now.rlim_max);
	pid_t pid = fork();
	if (pid == 0) { prctl(PR_SET_DUMPABLE, 1); abort(); }
	int status;
	waitpid(pid, &status, 0);
	tried("crash: %#x", status);
	if (WCOREDUMP(status)) breach("a core was dumped");
}
