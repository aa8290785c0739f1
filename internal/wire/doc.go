// Package wire has what several edges read and write in one way, for it is the
// field's and no protocol's: what an error is in HTTP, events as they come, the
// parts of a form, a file as a download. What a protocol says with it, and how it
// refuses, stays with the protocol.
package wire
