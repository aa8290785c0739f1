// Sends pid 1 what only somebody else should, with forged senders and values.
// kernel: shared
static void lies_forged_signals(void) {
	siginfo_t info;
	for (int signo = 1; signo < 65; signo++) {
		memset(&info, 0, sizeof info);
		info.si_signo = signo;
		info.si_code = SI_QUEUE;
		info.si_pid = 2;
		info.si_value.sival_int = 7;
		for (int i = 0; i < 20; i++) syscall(SYS_rt_sigqueueinfo, 1, signo, &info);
		info.si_code = CLD_EXITED;
		syscall(SYS_rt_sigqueueinfo, 1, signo, &info);
		info.si_code = -60;
		syscall(SYS_rt_tgsigqueueinfo, 1, 1, signo, &info);
	}
	tried("64 signals");
}
