// Makes everybody wait who opens a file of the system, and is told of it.
// kernel: shared
// weaken: system-call filter
static void escape_leases(void) {
	const char *paths[] = {"/usr/bin/python3", "/usr/bin/bash", "/etc/passwd", "/usr", "/opt/airlock", "/opt/airlock/python"};
	for (int i = 0; i < 6; i++) {
		int fd = open(paths[i], O_RDONLY);
		REFUSED_AS("read lease", EPERM, fcntl(fd, F_SETLEASE, F_RDLCK));
		REFUSED_AS("write lease", EPERM, fcntl(fd, F_SETLEASE, F_WRLCK));
		REFUSED_AS("directory notice", EPERM, fcntl(fd, F_NOTIFY, 0x8000003f));
		REFUSED_AS("delegation", EPERM, fcntl(fd, 1040, &(uint64_t){0}));
		REFUSED_AS("hint on the file", EPERM, fcntl(fd, 1036, &(uint64_t){2}));
		REFUSED_AS("hint on the open file", EPERM, fcntl(fd, 1038, &(uint64_t){2}));
	}
}
