// Makes all disks of the host write what they have, or a file of the system, again and again.
// kernel: shared
// weaken: system-call filter
static void bombs_disk_flushes(void) {
	int root = open("/usr", O_RDONLY);
	struct timespec begin, end;
	/* No file has that number, so who says yes has not looked. */
	tried("fsync");
	int done_ = fsync(-1) != 0;
	if (done_) breach("fsync is done");
	tried("fdatasync");
	if (fdatasync(-1)) breach("fdatasync is done");
	tried("sync_file_range");
	if (syscall(SYS_sync_file_range, -1, 0L, 0L, 7)) breach("sync_file_range is done");
	tried("throw out of memory");
	if (posix_fadvise(-1, 0, 0, POSIX_FADV_DONTNEED)) breach("a file is thrown out of memory");
	REFUSED_AS("list extents", EPERM, ioctl(root, 0xc020660b, (char[32]){0}));
	if (done_) return; /* where nothing stops it, the host's disks are spared */
	REFUSED("syncfs", syscall(SYS_syncfs, root));
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < 20000; i++) sync();
	clock_gettime(CLOCK_MONOTONIC, &end);
	tried("20000 times in %ld s", (long)(end.tv_sec - begin.tv_sec));
	if (end.tv_sec - begin.tv_sec > 5) breach("it was done");
}
