// Package conversation takes what a model has said to where it belongs, the
// same way for the command line, the page and the API.
//
// A Desk is handed finished replies. It reads one, finds the folder that the
// project is linked with, and makes a proposal: which files would change, and
// what would be reported to the project. Somebody approves it or a part of it,
// here or in another process, and the desk carries it out: the files in one
// transaction, the reports queued in the same step, and a Result that says
// what became of each, kept with the message.
//
// Two gates stand before a folder. A project's replies are applied only where
// its folder was linked by a person, who can take the link back. And a reply
// of a conversation that names its phase is applied only in EXECUTE; in all
// others it is read and shown.
package conversation
