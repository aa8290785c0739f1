// Leaves a process that shares its memory but is no thread of it.
// kernel: shared
static char stack_for_it[65536];
static int stay(void *x) { for (;;) pause(); }
static void outlive_shared_memory(void) {
	tried("leave");
	if (clone(stay, stack_for_it + sizeof stack_for_it, CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD, 0) < 0) _exit(3);
	if (clone(stay, stack_for_it + 32768, CLONE_VM | CLONE_PARENT, 0) < 0) _exit(3);
}
