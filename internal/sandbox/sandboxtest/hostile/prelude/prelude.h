#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int, char **);
static int tried_steps;
static void say(const char *kind, const char *format, va_list args) {
	char text[300], line[500];
	vsnprintf(text, sizeof text, format, args);
	int n = snprintf(line, sizeof line, "H:%s:%s:%s\n", getenv("H_NONCE"), kind, text);
	if (write(1, line, n) != n) _exit(97);
}
static void tried(const char *format, ...) {
	va_list args;
	va_start(args, format);
	tried_steps++;
	say("tried", format, args);
	va_end(args);
}
static void breach(const char *format, ...) {
	va_list args;
	va_start(args, format);
	say("breach", format, args);
	va_end(args);
}
static void say_done(const char *format, ...) {
	va_list args;
	va_start(args, format);
	say("done", format, args);
	va_end(args);
}
static void done(void) { say_done("%d", tried_steps); exit(0); }
static void begin(int argc) {
	if (argc != 2 || !getenv("H_NONCE")) _exit(96);
}
/* Whether a file is one that the interpreter of a cell has open: its channel, and its loop's. */
static int own(int fd, const char *target) {
	const char *kinds[] = {"pipe:", "pipe:", "anon_inode:[eventpoll]", "socket:", "socket:"};
	return getenv("H_CELL") && fd >= 3 && fd < 8 && !strncmp(target, kinds[fd - 3], strlen(kinds[fd - 3]));
}
/* An attempt that must not work, in whatever way it is refused. */
#define REFUSED(what, attempt) do { \
	errno = 0; long result_ = (long)(attempt); \
	tried("%s: %s", what, strerror(errno)); \
	if (result_ != -1) breach("%s gave %ld", what, result_); } while (0)
/* An attempt that must be refused in one way. */
#define REFUSED_AS(what, wanted, attempt) do { \
	errno = 0; long result_ = (long)(attempt); int error_ = errno; \
	tried("%s: %s", what, strerror(error_)); \
	if (result_ != -1 || error_ != wanted) breach("%s gave %ld, %s", what, result_, strerror(error_)); } while (0)
