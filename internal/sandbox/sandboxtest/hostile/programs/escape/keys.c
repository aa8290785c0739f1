// Reads and fills the kernel's key rings.
// kernel: shared
// weaken: system-call filter
static void escape_keys(void) {
	for (int ring = -8; ring < 0; ring++) REFUSED("keyctl get ring", syscall(SYS_keyctl, 0, ring, 1));
	for (int command = 0; command < 33; command++) REFUSED("keyctl", syscall(SYS_keyctl, command, -3, 0, 0, 0));
	REFUSED("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
	REFUSED("add_key big", syscall(SYS_add_key, "big_key", "x", "y", 1, -5));
	REFUSED("request_key", syscall(SYS_request_key, "user", "x", "callout", -3));
}
