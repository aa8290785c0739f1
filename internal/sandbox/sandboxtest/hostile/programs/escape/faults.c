// Takes page faults into its own hands, the tool of half of all kernel exploits.
// kernel: shared
// weaken: system-call filter
static void escape_faults(void) {
	for (int flags = 0; flags < 4; flags++) REFUSED("userfaultfd", syscall(SYS_userfaultfd, flags));
	REFUSED("open /dev/userfaultfd", open("/dev/userfaultfd", O_RDWR));
	REFUSED("/dev/fuse", open("/dev/fuse", O_RDWR));
	REFUSED("memfd_secret", syscall(SYS_memfd_secret, 0));
}
