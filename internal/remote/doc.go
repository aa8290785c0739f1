// Package remote is a sandbox on other machines: a Worker lets apis use the sandbox of
// its machine, and a Sandbox is the engine.Sandbox of an api, which places programs on workers.
//
// They speak HTTP/2. Each request has a stream of its own, which carries frames in both
// directions: the program, its output, its calls. Files are named by their digest: a worker
// caches those that were used last, is told where to read others, and stores the files that
// programs leave before it reports their end. A worker reports that it starts a program
// before it does; until then an api may turn to another worker, afterwards never.
package remote
