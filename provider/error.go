package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Kind is what went wrong, the same twelve for every provider. A Kind is an
// error itself, so that
//
//	errors.Is(err, provider.RateLimited)
//
// asks whether err is of that kind.
type Kind string

// What can go wrong.
const (
	ContainerExpired Kind = "container_expired" // the session is gone, with its files
	FileNotFound     Kind = "file_not_found"
	NotDownloadable  Kind = "not_downloadable" // it exists, and is not handed out
	FileExpired      Kind = "file_expired"
	NotReady         Kind = "not_ready" // the provider is still looking at it
	TooLarge         Kind = "too_large"
	Quota            Kind = "quota"
	RateLimited      Kind = "rate_limited"
	Transient        Kind = "transient" // may well work when tried again
	Auth             Kind = "auth"
	Invalid          Kind = "invalid"
	OutputsMissing   Kind = "outputs_missing" // the code ran, files were promised, none came
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{ContainerExpired, FileNotFound, NotDownloadable, FileExpired, NotReady, TooLarge,
		Quota, RateLimited, Transient, Auth, Invalid, OutputsMissing}
}

// Error implements error.
func (k Kind) Error() string { return strings.ReplaceAll(string(k), "_", " ") }

// Error is a failure that a person can do something about.
type Error struct {
	Kind     Kind
	Provider string
	Op       string // what was tried: "upload data.csv", "run"
	Status   int    // of HTTP; 0: none, or one that said nothing
	Code     string // the provider's word for it
	Message  string // the provider's sentence
	Hint     string // what to do, when it is more special than [Kind.Hint]
	// RequestID is what the provider's support asks for.
	RequestID  string
	RetryAfter time.Duration // asked for by the provider; 0: not said
	// Attempts is how often it was tried by [Retry.Do], which repeats nothing
	// that has been repeated before.
	Attempts int
	// Ambiguous says that the provider may have done it all the same: a request
	// that was sent and whose answer was not seen. [Ledger] looks for what it left.
	Ambiguous bool
	Err       error
}

// Error implements error: what was tried, at whom, and what came back, without
// whatever looks like a key in it.
func (e *Error) Error() string {
	return RedactKeys(e.text())
}

func (e *Error) text() string {
	var b strings.Builder
	if e.Provider != "" {
		b.WriteString(e.Provider + ": ")
	}
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	switch {
	case e.Message != "":
		b.WriteString(e.Message)
	case e.Err != nil:
		b.WriteString(causeText(e.Err))
	default:
		b.WriteString(e.Kind.Error())
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, " (status %d", e.Status)
		if e.Code != "" {
			b.WriteString(", " + e.Code)
		}
		b.WriteString(")")
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, ", tried %d times", e.Attempts)
	}
	return b.String()
}

// causeText leaves out the address of a request that failed: Op says what it was
// about, and an address may have secrets in it.
func causeText(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Gone tells whether what was to be deleted is deleted: a service that does not
// find it may not have been asked, where a gateway answers in its place with an
// error of somebody else's. So it is looked for.
func Gone(ctx context.Context, files FileStore, r FileRef, err error) error {
	if !isMissing(err) {
		return err
	}
	_, stat := files.Stat(ctx, r)
	switch {
	case stat == nil:
		return &Error{Kind: Transient, Provider: r.Provider, Op: "delete " + r.ID,
			Message: "it was said not to be there, and is", Err: err}
	case isMissing(stat):
		return nil
	}
	return stat
}

// isMissing reports whether an error says that the provider does not have a file.
func isMissing(err error) bool {
	kind := KindOf(err)
	return kind == FileNotFound || kind == FileExpired
}

// Repeats is the error of a list whose pages come again: it would never end, and
// what it has not shown by then it never will.
func Repeats(name, op string) error {
	return &Error{Kind: Invalid, Provider: name, Op: op,
		Message: "the pages of the list repeat themselves; it was left where that began",
		Hint:    "This is a fault of the service or of a gateway before it. What the list showed until then was used."}
}

// KindOf returns the kind of an error, "" of one that has none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if k, ok := errors.AsType[Kind](err); ok {
		return k
	}
	return ""
}

// HintOf says what the person can do about an error, "" when there is nothing
// to say.
func HintOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Hint != "" {
		return e.Hint
	}
	return KindOf(err).Hint()
}

// kindHints say what a person can do about errors of a kind.
var kindHints = map[Kind]string{
	ContainerExpired: "The provider ended the session and deleted its files. Start a new one with the same files; " +
		"outputs that were fetched are still here.",
	FileNotFound: "The provider does not know the file: it was deleted, or belongs to another account or project. " +
		"Upload it again.",
	NotDownloadable: "The provider keeps this file for its tools and does not hand it out. Ask the model to write a " +
		"copy as an output.",
	FileExpired: "The file's lifetime at the provider is over. Upload it again.",
	NotReady:    "The provider is still preparing the file. Wait a moment and try again.",
	TooLarge:    "Make the file smaller (split it, compress it, take a sample), or choose a provider with a higher limit.",
	Quota: "The account's storage or budget is used up. Delete remote files (airlock files ls, airlock files gc) or " +
		"raise the plan's limit.",
	RateLimited: "Too many requests for this account. Wait as long as the provider says, then try again.",
	Transient: "The provider or the network failed for the moment. Try again; if it lasts, " +
		"look at the provider's status page.",
	Auth: "The key is missing, wrong, or not allowed to do this. Check the provider's key and the rights of its project.",
	Invalid: "The provider refused the request as it is. Check the model's name, and that it supports code execution " +
		"and these files.",
	OutputsMissing: "The answer speaks of files that were not found. Ask the model to write them again, into the folder " +
		"for outputs.",
}

// Hint says what a person can do about errors of this kind.
func (k Kind) Hint() string { return kindHints[k] }

// Retryable reports whether the same request may work when it is sent again.
func (k Kind) Retryable() bool {
	return k == Transient || k == RateLimited || k == NotReady
}
