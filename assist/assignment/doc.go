// Package assignment tells a project what became of its assignments: how far
// each one is, which are done, and where the user has to decide.
//
// A language model writes these reports into its reply, as blocks that package
// reply finds. They become Posts, and a Post is a promise: it is delivered to
// the project's API once, in order, however often the network, the API or this
// process fails in between. Four parts keep the promise.
//
//   - NewBatch makes posts out of blocks, and holds those that a person should see
//     first: a submission marks work as complete, so one from a damaged block waits.
//   - A Lane is the state of one assignment: its posts in order, its
//     percentage, its open questions. All rules of the outbox are methods of a
//     Lane, on plain values, without a network or a disk.
//   - A Store keeps lanes, and lets one process at a time change one. The
//     outbox of the airlock program is in SQLite, where a batch is added in
//     the same transaction in which its files become durable; Outbox is what
//     people and programs do with a store.
//   - A Sender carries posts out, retries them, and parks what the API refuses
//     until the user looks.
//
// # Effectively once
//
// A post has an idempotency key, the hash of what it says and of the reply
// that said it. It is the key of the record in the store, so that the same
// reply applied twice is reported once, and it is sent as Idempotency-Key, so
// that an API that knows the header counts a repeated request once. When an
// answer was lost, it is unknown whether the request arrived: then the sender
// first reads the assignment and compares, and repeats the request only if
// what it says is not there. Against an API that has neither keys nor a way to
// read an assignment, a lost answer can mean two deliveries.
//
// # Order
//
// The posts of one assignment leave one after the other, each after the one
// before it was accepted; assignments do not wait for each other. Progress
// that has not left yet is merged with newer progress. A submission is never
// merged, follows the last progress of its assignment, and waits while an
// escalation of the assignment is open.
//
// # The project's API
//
// Below the address of the API:
//
//	POST /api/v1/projects/{p}/assignments/{a}/progress    {progress_percent, progress_notes, remaining_items[]}
//	POST /api/v1/projects/{p}/assignments/{a}/submit      {submission_summary, submission_evidence[]}
//	GET  /api/v1/projects/{p}/assignments/{a}             the same fields, to compare with
//	POST /api/v1/projects/{p}/escalations                 {escalation_id, assignment_id, question, options[], ...}
//	GET  /api/v1/projects/{p}/escalations?state=open
//	POST /api/v1/projects/{p}/escalations/{e}/decision    {choice, note, decided_by, decided_at}
//
// Package demo has such an API, which can be told to fail.
package assignment
