// Package reply reads the replies of language models: files in code fences,
// edits, diffs, patch envelopes, and status blocks.
//
// A model that is asked to change a project answers in prose with code in it. This package
// finds the changes that the reply asks for, and nothing else: each [Item] has the bytes to
// write, its place in the reply, a confidence in its path, and a [Verdict]. The main rule
// is that a wrong write costs more than a missed one. An item with two readings is
// [VerdictAmbiguous] and waits for a person. Text that leaves something out, quotes, or
// shows an example is never a write.
//
//	r := reply.Parse(text)
//	for _, item := range r.Files() {
//		fmt.Println(item.Kind, item.Path)
//	}
//
// A [Parser] accepts the same reply in chunks, as it arrives, and finds the same items.
// [Apply] makes an item's new content from a file's current content. This package uses no
// disk and no network; package workspace writes the files.
//
// # How a reply is read
//
// The parser reads the reply line by line, once. In prose it looks for the beginning of a
// fence, a block, an edit, an envelope, a diff or a tag. Inside of those it looks only for
// the end. If the ends do not match, it reads the rest a second time under the plainest
// rules, and all items from that need a person's approval. So the time is linear for any
// input.
//
// A document in a fence of three backticks may hold such fences itself. Its end
// is the line that leaves all other fences of the reply in pairs, and in pairs
// that look like fences, so it is known only when the whole reply is: items from
// such a document on come with Close. Where another end is nearly as good, the
// document is [VerdictAmbiguous], Readings has it with each end, and so is all
// that may stand inside of it. Longer fences and those of tildes need no such
// search; they end where CommonMark says.
//
// A fence's path comes from its info string, the line above it or a comment on
// its first line, each with a confidence of its own; see [PathSource].
package reply
