// Package changes handles a finished reply of a model: the proposal of its files and
// reports, the user's approval, the result, and the undo.
//
// Replies reads a reply, finds the folder that the project is linked with, and makes a
// proposal: which files would change, and what would be reported to the project. The user
// approves all of it or a part, here or in another process, and Replies applies that: it
// changes the files in one transaction, queues the reports in the same step, and saves with
// the message a Result that has the outcome of each.
//
// Two gates protect a folder. A project's replies are applied only while a person's link
// with the folder exists; the person can revoke it. A reply of a conversation that names
// its phase is applied only in EXECUTE; in all other phases it is only shown.
package changes
