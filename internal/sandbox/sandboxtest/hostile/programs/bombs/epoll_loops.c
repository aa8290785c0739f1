// Watches watchers in long chains and circles.
static void bombs_epoll_loops(void) {
	int chain[200];
	for (int i = 0; i < 200; i++) chain[i] = epoll_create1(0);
	int linked = 0;
	for (int i = 1; i < 200; i++) linked += epoll_ctl(chain[i], EPOLL_CTL_ADD, chain[i - 1], &(struct epoll_event){EPOLLIN}) == 0;
	tried("%d links", linked);
	REFUSED("a circle", epoll_ctl(chain[0], EPOLL_CTL_ADD, chain[1], &(struct epoll_event){EPOLLIN}));
}
