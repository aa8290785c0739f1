// Changes the machine: clocks, modules, swap, names, ports.
// kernel: shared
// weaken: system-call filter, set user, set group, drop capabilities, drop from the bounding set, no new privileges, landlock
#include <sys/io.h>
#include <sys/timex.h>
static void escape_machine(void) {
	struct timespec t = {1, 0};
	struct timex x = {.modes = 0x8000};
	REFUSED("clock_settime", syscall(SYS_clock_settime, 1 << 20, &t));
	REFUSED("settimeofday", syscall(SYS_settimeofday, (void *)1, (void *)1));
	REFUSED("adjtimex", syscall(SYS_adjtimex, &x));
	REFUSED("clock_adjtime", syscall(SYS_clock_adjtime, 0, &x));
	REFUSED("init_module", syscall(SYS_init_module, "", 0, ""));
	REFUSED("finit_module", syscall(SYS_finit_module, 0, "", 0));
	REFUSED("delete_module", syscall(SYS_delete_module, "no-such-module", 0));
	REFUSED("kexec_load", syscall(SYS_kexec_load, 0, 1, (void *)1, 1 << 30));
	REFUSED("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
	REFUSED("swapon", syscall(SYS_swapon, "/workspace/none", 0));
	REFUSED("swapoff", syscall(SYS_swapoff, "/workspace/none"));
	REFUSED("acct", syscall(SYS_acct, "/workspace/none"));
	REFUSED("quotactl", syscall(SYS_quotactl, 0, 0, 0, 0));
	REFUSED("syslog", syscall(SYS_syslog, 10, 0, 0));
	REFUSED("sethostname", syscall(SYS_sethostname, "pwned", 5));
	REFUSED("setdomainname", syscall(SYS_setdomainname, "pwned", 5));
	REFUSED("vhangup", syscall(SYS_vhangup));
	REFUSED("fanotify_init", syscall(SYS_fanotify_init, 0, 0));
#ifdef __x86_64__
	REFUSED("iopl", syscall(SYS_iopl, 3));
	REFUSED("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
	REFUSED("modify_ldt", syscall(SYS_modify_ldt, 1, "", 0));
#endif
}
