// Takes memory with many processes, of which none has much.
// ends: anyhow
// memory: 128
static void bombs_memory_of_many(void) {
	tried("take");
	for (int i = 0; i < 30; i++)
		if (fork() == 0) { memset(malloc(16 << 20), 1, 16 << 20); write(1, "x", 1); sleep(1); _exit(0); }
	int status, well = 0;
	while (wait(&status) > 0) well += WIFEXITED(status);
	if (well == 30) breach("480 MiB on 128");
}
