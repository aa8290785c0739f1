// Writes to files that it may only read, through every kind of mapping.
// next: must see the same
// own: open (by number )?for writing
static void escape_page_cache(void) {
	const char *paths[] = {"/usr/bin/id", "/etc/passwd", "/usr/lib/os-release", "/proc/self/exe"};
	for (int i = 0; i < 3; i++) {
		int fd = open(paths[i], O_RDONLY);
		if (fd < 0) { tried("no %s", paths[i]); continue; }
		REFUSED("open for writing", open(paths[i], O_RDWR));
		REFUSED("open by number for writing", ({ char p[64]; snprintf(p, sizeof p, "/proc/self/fd/%d", fd); open(p, O_RDWR); }));
		REFUSED("shared, writable", (long)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
		char *shared = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
		REFUSED("make it writable", mprotect(shared, 4096, PROT_READ | PROT_WRITE));
		char first = *shared;
		int memory = open("/proc/self/mem", O_RDWR);
		REFUSED("write past the protection", pwrite(memory, "~", 1, (off_t)shared));
		char *private = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		for (int n = 0; n < 2000; n++) { /* as Dirty COW raced */
			*private = '~';
			madvise(private, 4096, MADV_DONTNEED);
			pwrite(memory, "~", 1, (off_t)private);
		}
		tried("race");
		char now;
		if (pread(fd, &now, 1, 0) != 1 || now != first) breach("%s was changed", paths[i]);
		REFUSED("fallocate", fallocate(fd, 0, 0, 100));
		REFUSED("ftruncate", ftruncate(fd, 0));
	}
}
