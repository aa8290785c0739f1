// Package changes has what becomes of a finished reply of a model: the proposal of its
// files and reports, the user's approval, the result, and the undo.
//
// Replies reads a reply, finds the folder that the project is linked with, and makes a
// proposal: which files would change, and what would be reported to the project. The user
// approves all of it or a part, here or in another process, and Replies applies that: it
// changes the files in one transaction, queues the reports in the same step, and saves with
// the message a Result that has the outcome of each.
//
// Two gates protect a folder. A project's replies are applied only if a person linked the
// folder, who can revoke the link. And a reply of a conversation that names its phase is
// applied only in EXECUTE; in all others it is only shown.
package changes
