// Asks the kernel where pid 1 keeps its things, and wakes what it waits for.
// kernel: shared
static void escape_lists_of_init(void) {
	void *head = 0;
	size_t length = 0;
	REFUSED("robust list of pid 1", syscall(SYS_get_robust_list, 1, &head, &length));
	REFUSED("pages of pid 1", syscall(SYS_migrate_pages, 1, 8, &(long){1}, &(long){1}));
	REFUSED("memory policy", syscall(SYS_set_mempolicy, 2, &(long){2}, 64));
	int clock = (~1 << 3) | 2; /* processor time of pid 1 */
	struct timespec t;
	REFUSED("set the clock of pid 1", clock_settime(clock, &t));
	REFUSED("group of pid 1", setpgid(1, 0));
	REFUSED("affinity of pid 1", sched_setaffinity(1, sizeof(long), (cpu_set_t *)&(long[16]){0}));
	REFUSED("memory of pid 1 by its file", open("/proc/1/mem", O_RDWR));
	REFUSED("a signal by a queue", syscall(SYS_rt_tgsigqueueinfo, 1, 1, SIGKILL, &(char[128]){0}));
	kill(1, SIGSTOP); kill(1, SIGKILL); kill(1, SIGSEGV); kill(1, SIGILL); syscall(SYS_tgkill, 1, 1, SIGABRT);
	tried("signals to pid 1");
}
