// Makes new namespaces and enters others.
// kernel: shared
// weaken: system-call filter
static void escape_namespaces(void) {
	static const struct { const char *name; int flag; } kinds[] = {
		{"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS}, {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"ipc", CLONE_NEWIPC},
		{"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}, {"time", 0x80}, {"user and mnt", CLONE_NEWUSER | CLONE_NEWNS}};
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		char what[64], path[64];
		snprintf(what, sizeof what, "unshare %s", kinds[i].name);
		REFUSED(what, syscall(SYS_unshare, kinds[i].flag));
		if (kinds[i].flag != 0x80) { /* among the bits of clone's exit signal */
			snprintf(what, sizeof what, "clone %s", kinds[i].name);
			errno = 0;
			long pid = syscall(SYS_clone, kinds[i].flag | SIGCHLD, 0, 0, 0, 0);
			if (pid == 0) _exit(0);
			tried("%s: %s", what, strerror(errno));
			if (pid > 0) breach("%s", what);
		}
		snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i].name);
		int fd = open(path, O_RDONLY);
		if (fd >= 0) {
			snprintf(what, sizeof what, "setns %s", kinds[i].name);
			REFUSED(what, syscall(SYS_setns, fd, kinds[i].flag));
			REFUSED("parent of a namespace", kinds[i].flag == CLONE_NEWPID ? ioctl(fd, 0xb702) : -1);
		}
	}
	uint64_t args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
	errno = 0;
	long pid = syscall(SYS_clone3, args, sizeof args);
	if (pid == 0) _exit(0);
	tried("clone3: %s", strerror(errno));
	if (pid > 0) breach("clone3 made a user namespace");
}
