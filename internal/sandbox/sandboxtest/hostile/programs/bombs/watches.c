// Watches a thousand files with a thousand watchers.
// ends: anyhow
// memory: 128
// needs: groups
#include <sys/eventfd.h>
#include <sys/inotify.h>
static void bombs_watches(void) {
	for (int n = 0; n < 200; n++) if (inotify_init() < 0) { tried("inotify: %d", n); break; }
	tried("watch");
	for (int i = 0; i < 12; i++)
		if (fork() == 0) {
			int files[400];
			for (int n = 0; n < 400; n++) files[n] = eventfd(0, 0);
			for (int n = 0; n < 500; n++) {
				int p = epoll_create1(0);
				for (int f = 0; f < 400; f++) epoll_ctl(p, EPOLL_CTL_ADD, files[f], &(struct epoll_event){EPOLLIN});
			}
			sleep(1);
			_exit(0);
		}
	int status, well = 0;
	while (wait(&status) > 0) well += WIFEXITED(status);
	if (well == 12) breach("2.4 million watches");
}
