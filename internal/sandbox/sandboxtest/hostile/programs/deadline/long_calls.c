// Has every process in a system call that takes long and is not interrupted.
// ends: timeout
// timeout: 500ms
// processes: 60
// memory: 512
static void deadline_long_calls(void) {
	tried("calls");
	for (int i = 0; i < 40; i++) if (fork() == 0) {
		size_t size = 8UL << 30;
		char *m = mmap(0, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		for (int n = 0;; n++) switch ((i + n) % 6) {
		case 0: for (size_t at = 0; at < size / 16; at += 2 << 20) { volatile char c = m[at]; } if (fork() == 0) _exit(0); wait(0); break;
		case 1: { int z = open("/dev/zero", O_RDONLY); char *to = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); read(z, to, 8 << 20); munmap(to, 8 << 20); close(z); break; }
		case 2: { char *to = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); syscall(SYS_getrandom, to, 4 << 20, 0); munmap(to, 4 << 20); break; }
		case 3: { int a = open("/tmp/a", O_RDWR | O_CREAT, 0600), b = open("/tmp/b", O_RDWR | O_CREAT, 0600); ftruncate(a, 16 << 20); copy_file_range(a, 0, b, 0, 16 << 20, 0); close(a); close(b); break; }
		case 4: m = mremap(m, size, size, MREMAP_MAYMOVE); madvise(m, size, MADV_DONTNEED); break;
		case 5: { unsigned char v[4096]; for (int k = 0; k < 100; k++) mincore(m, 4096UL << 12, v); break; }
		}
	}
	for (;;);
}
