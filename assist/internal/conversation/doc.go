// Package conversation is shared by the command line and the page: a turn with a model that
// runs code on the user's files. Package changes has what becomes of its reply.
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
// and a Sink, which receives events (Event). The files of a turn:
//
//	question.go  questions, and the meaning of their answers
//	event.go     events, in their order
//	record.go    the record of a conversation
//	turn.go      the order of a turn: inputs.go, browse.go, outputs.go
//	live.go      conversations whose users connect and disconnect, as those of a page
package conversation
