// Package engine is the core of Airlock. It takes a request to run code,
// decides whether and when the code may run, stages its files, streams its
// output, and stores the files that it left.
//
// The engine knows nothing of HTTP, SQLite or namespaces. It declares the
// three interfaces it needs: a Sandbox that runs one program, Blobs that store
// bytes, and an Index that records objects. Each protocol that Airlock serves
// translates to the methods of Service and back.
//
// Service.Start checks a request and its owner, records the run, and queues
// it. Once the run has a slot, its inputs are opened from Blobs and handed to
// Sandbox.Run, whose output becomes a log of Events that any number of
// watchers read at their own speed. When the program has ended, its new and
// changed files are stored, and run and files are recorded in one transaction.
// A run belongs to the service, not to the request that began it: a caller may
// disconnect, reconnect, and resume watching.
//
// State that is in the memory of the process alone says so where it is
// declared: jobs, queue, budgets, touches and records.
package engine
