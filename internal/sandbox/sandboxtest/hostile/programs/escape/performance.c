// Watches the kernel and the neighbours through performance counters.
// kernel: shared
// weaken: system-call filter
static void escape_performance(void) {
	for (int type = 0; type < 6; type++) {
		uint64_t attr[16] = {(uint64_t)128 << 32 | type, 0, 0, 0, 0, 1 | 1 << 5 | 1 << 6};
		REFUSED_AS("perf_event_open self", ENOSYS, syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
		REFUSED_AS("perf_event_open CPU", ENOSYS, syscall(SYS_perf_event_open, attr, -1, 0, -1, 0));
	}
	REFUSED("lookup_dcookie", syscall(SYS_lookup_dcookie, 0, 0, 0));
}
