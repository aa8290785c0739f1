// Has every process wait for the disk without heed to signals, with all calls that do.
// ends: timeout
// timeout: 500ms
// processes: 70
static void deadline_disk(void) {
	static const char *files[] = {"/usr/bin/python3", "/usr/bin/bash", "/usr/lib/os-release", "/etc/passwd", "/usr/bin/env"};
	static char data[1 << 16];
	tried("wait");
	for (int i = 0; i < 60; i++) if (fork() == 0)
		for (int n = i;; n++) {
			int fd = open(files[n % 5], O_RDONLY);
			fsync(fd); fdatasync(fd); syscall(SYS_sync_file_range, fd, 0L, 0L, 7); sync();
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
			char *m = mmap(0, 1 << 16, PROT_READ, MAP_SHARED, fd, 0);
			if (m != MAP_FAILED) { msync(m, 1 << 16, MS_SYNC); madvise(m, 1 << 16, 21); munmap(m, 1 << 16); }
			while (read(fd, data, sizeof data) > 0);
			close(fd);
		}
	for (;;) pause();
}
