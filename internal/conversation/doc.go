// Package conversation is shared by the command line and the page: a turn with
// a model that runs code on the user's files, and the proposal that its reply becomes.
//
// # A turn
//
// A Host begins and resumes conversations. A Chat is a conversation in progress, and
// Chat.Turn runs one turn of it: it asks for consent, sends the files, lets the provider
// run the model's code, finds and fetches the outputs of the code, asks which of them to
// save, saves them, and records all of it. Chat.Close deletes what was made at the
// provider, even after an error.
//
//	chat, err := host.Begin(ctx, owner, conversation.Settings{Provider: "openai", Model: "..."})
//	...
//	turn, err := chat.Turn(ctx, conversation.Prompt{Text: "Plot it", Files: files, Folder: "out"}, person, sink)
//	cleaned, err := chat.Close(ctx, sink)
//
// The caller brings two things: a Prompter, which puts questions (Ask) to the user,
// and a Sink, which receives events (Event). Both are plain values that can be
// written as JSON. The files of a turn:
//
//	question.go  questions, and the meaning of their answers
//	event.go     events, in their order
//	record.go    the record of a conversation
//	turn.go      the order of a turn: inputs.go, browse.go, outputs.go
//	live.go      conversations whose users connect and disconnect, as those of a page
//
// # A reply
//
// Replies reads a finished reply, finds the folder that the
// project is linked with, and makes a proposal: which files would change, and
// what would be reported to the project. The user approves it or a part of it,
// here or in another process, and Replies carries it out: the files in one
// transaction, the reports queued in the same step, and a Result that says
// what became of each, kept with the message.
//
// Two gates stand before a folder. A project's replies are applied only where
// its folder was linked by a person, who can take the link back. And a reply
// of a conversation that names its phase is applied only in EXECUTE; in all
// others it is read and shown.
package conversation
