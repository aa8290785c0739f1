// Ends as if it had run out of memory, with none used.
// ends: killed
static void lies_killed_inside(void) { tried("end"); kill(getpid(), SIGKILL); }
