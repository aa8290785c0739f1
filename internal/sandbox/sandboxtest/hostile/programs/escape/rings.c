// Sets up io_uring and AIO, by which system calls go past the filter.
// kernel: shared
// weaken: system-call filter
static void escape_rings(void) {
	char params[120] = {0};
	uint64_t context = 0;
	REFUSED("io_uring_setup", syscall(SYS_io_uring_setup, 8, params));
	REFUSED("io_uring_enter", syscall(SYS_io_uring_enter, 3, 1, 0, 0, 0, 0));
	REFUSED("io_uring_register", syscall(SYS_io_uring_register, 3, 0, 0, 0));
	REFUSED("io_setup", syscall(SYS_io_setup, 8, &context));
	REFUSED("io_submit", syscall(SYS_io_submit, context, 0, 0));
}
