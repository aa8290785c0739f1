// Runs out of its stack, and of that for signals.
// ends: killed
static int deeper(int n) { volatile char room[4096]; room[0] = n; return deeper(n + 1) + room[0]; }
static void bombs_stack(void) { tried("recurse"); deeper(0); }
