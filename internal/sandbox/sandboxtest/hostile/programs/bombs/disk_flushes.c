// Makes all disks of the host write what they have, again and again.
static void bombs_disk_flushes(void) {
	int fd = open("/workspace/x", O_RDWR | O_CREAT, 0600), root = open("/usr", O_RDONLY);
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < 20000; i++) sync();
	clock_gettime(CLOCK_MONOTONIC, &end);
	tried("20000 times in %ld s", (long)(end.tv_sec - begin.tv_sec));
	REFUSED("syncfs", syscall(SYS_syncfs, root));
	if (end.tv_sec - begin.tv_sec > 5) breach("it was done");
}
