// Package remote is a sandbox on other machines: a Worker lets apis use the sandbox of
// its machine, and a Sandbox is that of an api, which places programs on workers.
//
// They speak HTTP/2, each request on a stream of its own, on which frames go both ways:
// the program, what it prints, what it calls. Files go by their digest: a worker has
// those that were used last, is told where to get others, and stores what programs leave
// before it says that they have ended. A worker says that it starts a program before it
// does; before that an api may turn to another worker, and after that never.
package remote
