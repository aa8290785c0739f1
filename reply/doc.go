// Package reply reads the replies of language models: files in code fences,
// edits, diffs, patch envelopes, and status blocks.
//
// A model that is asked to change a project answers in prose with code in it.
// This package finds what the reply asks for, and nothing else: each [Item] has
// the bytes to write, where in the reply it stands, how sure the path is, and a
// [Verdict]. The rule above all others is that a wrong write costs more than a
// missed one. What can be read in two ways is [VerdictAmbiguous] and waits for a
// person; what leaves something out, quotes, or shows an example is never a
// write at all.
//
//	r := reply.Parse(text)
//	for _, item := range r.Files() {
//		fmt.Println(item.Kind, item.Path)
//	}
//
// A [Parser] takes the same reply in chunks, as it arrives, and comes to the same
// items. [Apply] makes an item's new content from a file's current content.
// Nothing here touches a disk or a network; package workspace does the writing.
//
// # How a reply is read
//
// The parser goes through the reply line by line, once. In prose it looks for
// what begins something: a fence, a block, an edit, an envelope, a diff, a tag.
// Inside of those it looks only for the end. Where the ends do not fit together
// the rest is read a second time under the plainest rules, and all that this
// finds needs a person's word; so the time stays linear whatever the input is.
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
