// Gives pid 1, whose end is the end of all, the least priority, and lets 120 children compute.
// kernel: shared
// ends: timeout
// timeout: 500ms
// processes: 140
// weaken: system-call filter
static void deadline_priority_of_init(void) {
	int usual = getpriority(PRIO_PROCESS, 1); // the service may have been started with another than 0
	REFUSED_AS("priority of pid 1", EPERM, setpriority(PRIO_PROCESS, 1, 19));
	REFUSED_AS("priority with high bits", EPERM, syscall(SYS_setpriority, 1UL << 32 | PRIO_PROCESS, 1UL << 32 | 1, 19));
	REFUSED_AS("priority of a group", EPERM, setpriority(PRIO_PGRP, 0, 19));
	REFUSED_AS("priority of group 1", EPERM, setpriority(PRIO_PGRP, 1, 19));
	REFUSED_AS("priority of a user", EPERM, setpriority(PRIO_USER, 0, 19));
	REFUSED_AS("priority of this user", EPERM, setpriority(PRIO_USER, getuid(), 19));
	errno = 0;
	int priority = getpriority(PRIO_PROCESS, 1);
	tried("priority of pid 1 is %d", priority);
	if (errno == 0 && priority > usual) breach("pid 1 has priority %d", priority);
	struct sched_param p = {0};
	uint32_t attr[12] = {48, SCHED_IDLE};
	REFUSED("idle policy of pid 1", syscall(SYS_sched_setscheduler, 1, SCHED_IDLE, &p));
	REFUSED("batch policy of pid 1", syscall(SYS_sched_setscheduler, 1, SCHED_BATCH, &p));
	REFUSED("attributes of pid 1", syscall(SYS_sched_setattr, 1, attr, 0));
	REFUSED("one processor for pid 1", syscall(SYS_sched_setaffinity, 1, 8, &(unsigned long){1}));
	REFUSED("disk priority of pid 1", syscall(SYS_ioprio_set, 1, 1, 3 << 13));
	REFUSED("disk priority of the group", syscall(SYS_ioprio_set, 2, 0, 3 << 13));
	REFUSED("disk priority of the user", syscall(SYS_ioprio_set, 3, getuid(), 3 << 13));
	for (int i = 0; i < 120; i++) if (fork() == 0) for (;;);
	for (;;);
}
