// Switches protections of its own memory off, by personality.
// weaken: system-call filter
static void escape_layout(void) {
	unsigned long kinds[] = {0x0040000, 0x0400000, 0x0100000, 0x0008, 0x4000000, 0x100000000};
	for (int i = 0; i < 5; i++) REFUSED("personality", syscall(SYS_personality, kinds[i]));
	if (syscall(SYS_personality, 0xffffffff) != 0) breach("it has a personality");
}
