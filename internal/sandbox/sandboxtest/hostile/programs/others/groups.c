// Signals process groups, sessions and threads by every number, and moves itself into others.
static void others_groups(void) {
	int own = getpgrp();
	signal(SIGTERM, SIG_IGN);
	for (int group = 1; group < 5000; group++) {
		if (group == own) continue;
		if (killpg(group, 0) == 0 && group > 1) { /* its own children's */ }
		killpg(group, SIGTERM);
		setpgid(0, group);
		syscall(SYS_tkill, group == getpid() ? 1 : group, SIGTERM);
	}
	int victim = atoi(getenv("H_PID"));
	for (int signal_ = 1; signal_ < 65; signal_++) {
		REFUSED("the victim's group", killpg(victim, signal_));
		REFUSED("the victim", kill(victim, signal_));
	}
	REFUSED("the victim's session", getsid(victim));
}
