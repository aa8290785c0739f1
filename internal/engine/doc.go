// Package engine is the core of Airlock: it takes a request to run code,
// decides whether and when it may run, gives it its files, watches it, and
// keeps what came out.
//
// The engine knows nothing of HTTP, SQLite or namespaces. It declares the
// three things it needs (a Sandbox that runs one program, Blobs that keep
// bytes, an Index that remembers what is what), and every protocol that we
// serve translates to the methods of Service and back.
//
// One run, from the inside: Service.Start checks the request and its owner,
// records the run, and queues it. When its turn comes the inputs are opened
// from Blobs and handed to Sandbox.Run, whose output becomes a log of Events
// that any number of watchers read at their own speed. When the program has
// ended, its new and changed files are stored, and run and files are recorded
// in one transaction. A run belongs to the service, not to the request that
// began it: a caller may leave, come back, and watch it from where it was.
package engine
