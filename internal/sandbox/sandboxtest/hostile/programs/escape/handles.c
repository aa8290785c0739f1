// Opens files by handle, past all paths.
// weaken: system-call filter
static void escape_handles(void) {
	struct { struct file_handle h; char room[128]; } handle = {.h.handle_bytes = 128};
	int id, fd = open("/", O_RDONLY);
	REFUSED("name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &handle, &id, 0));
	REFUSED("name_to_handle_at /proc", syscall(SYS_name_to_handle_at, AT_FDCWD, "/proc/self/ns/pid", &handle, &id, 0));
	for (uint32_t inode = 1; inode < 64; inode++) { /* the root of an ext file system is 2 */
		handle.h.handle_bytes = 8;
		handle.h.handle_type = 1;
		memcpy(handle.h.f_handle, (uint32_t[]){inode, 0}, 8);
		REFUSED("open_by_handle_at", syscall(SYS_open_by_handle_at, fd, &handle, O_RDONLY));
	}
}
