// Is ended by the filter, and nothing else is.
// ends: killed
static void lies_other_architecture(void) {
	tried("end");
#ifdef __x86_64__
	__asm__ volatile("int $0x80" : : "a"(20) : "memory");
#endif
	kill(getpid(), SIGSYS);
}
