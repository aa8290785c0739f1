// Makes the calls that are too young for old lists: each must be unknown or harmless.
// weaken: system-call filter
static void escape_late_calls(void) {
	static const struct { const char *name; int number; } calls[] = {
		{"pidfd_send_signal", 424}, {"io_uring_enter", 426}, {"io_uring_register", 427}, {"open_tree", 428}, {"move_mount", 429}, {"fsopen", 430},
		{"fsconfig", 431}, {"fsmount", 432}, {"fspick", 433}, {"pidfd_open", 434}, {"pidfd_getfd", 438}, {"process_madvise", 440}, {"mount_setattr", 442},
		{"quotactl_fd", 443}, {"landlock_create_ruleset", 444}, {"landlock_add_rule", 445}, {"landlock_restrict_self", 446}, {"memfd_secret", 447},
		{"process_mrelease", 448}, {"set_mempolicy_home_node", 450}, {"cachestat", 451}, {"map_shadow_stack", 453}, {"statmount", 457}, {"listmount", 458},
		{"lsm_get_self_attr", 459}, {"lsm_set_self_attr", 460}, {"lsm_list_modules", 461}, {"setxattrat", 463}, {"removexattrat", 466}, {"open_tree_attr", 467},
		{"file_getattr", 468}, {"file_setattr", 469}};
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
		for (int flags = 0; flags < 2; flags++) {
			uint64_t nothing[16] = {0};
			nothing[0] = 32;
			REFUSED(calls[i].name, syscall(calls[i].number, flags ? -100 : 1, nothing, nothing, flags, 0, 0));
		}
	for (int n = 470; n < 700; n++) {
		errno = 0;
		long r = syscall(n, 0, 0, 0, 0, 0, 0);
		if (r != -1 || errno != ENOSYS) breach("call %d gave %ld, %s", n, r, strerror(errno));
	}
	tried("calls that do not exist yet");
}
