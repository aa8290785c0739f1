// Makes system calls by the numbers of other architectures.
// kernel: shared
// weaken: system-call filter
static int status_of(void (*attempt)(void)) {
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) { attempt(); _exit(42); }
	waitpid(pid, &status, 0);
	return status;
}
#ifdef __x86_64__
static void by_int80(void) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); if (r != getpid()) _exit(1); }
static void by_int80_mount(void) { __asm__ volatile("int $0x80" : : "a"(21), "b"(0), "c"(0), "d"(0) : "memory"); }
static void by_x32(void) { if (syscall(0x40000000 | SYS_getpid) != getpid()) _exit(1); }
#else
static void by_int80(void) { _exit(1); }
static void by_int80_mount(void) { _exit(1); }
static void by_x32(void) { _exit(1); }
#endif
static void escape_other_numbers(void) {
	void (*ways[])(void) = {by_int80, by_int80_mount, by_x32};
	for (int i = 0; i < 3; i++) {
		int status = status_of(ways[i]);
		tried("way %d: status %#x", i, status);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 42) breach("way %d worked", i);
	}
	for (long nr = 0x40000000; nr < 0x40000000 + 600; nr++) REFUSED("x32", syscall(nr, 0, 0, 0, 0, 0, 0));
	for (long nr = 463; nr < 1200; nr++) REFUSED_AS("a call of the future", ENOSYS, syscall(nr, 0, 0, 0, 0, 0, 0));
}
