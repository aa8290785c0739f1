// Takes the processors for itself: real-time, deadlines, better nice values, disk priority.
// kernel: shared
// weaken: system-call filter
static void escape_scheduling(void) {
	struct sched_param p = {1};
	uint32_t attr[12] = {48, 6, 0, 0, 0, 0};
	struct rlimit limit = {40, 40};
	REFUSED("SCHED_FIFO", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &p));
	REFUSED("SCHED_RR", syscall(SYS_sched_setscheduler, 0, SCHED_RR, &p));
	p.sched_priority = 0;
	REFUSED("SCHED_OTHER", syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &p));
	REFUSED("sched_setattr", syscall(SYS_sched_setattr, 0, attr, 0));
	REFUSED("nice", setpriority(PRIO_PROCESS, 0, -5));
	REFUSED("ioprio_set", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
	REFUSED("limit of nice", setrlimit(RLIMIT_NICE, &limit));
	REFUSED("limit of real time", setrlimit(RLIMIT_RTPRIO, &limit));
}
