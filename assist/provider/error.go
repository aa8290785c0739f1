package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/redact"
)

// Kind is a kind of error, the same twelve for every provider. An error of the caller's own context,
// which errors.Is finds as such, has none. A Kind is an error itself, so that
//
//	errors.Is(err, provider.RateLimited)
//
// asks whether err is of that kind.
type Kind string

// The kinds of errors.
const (
	ContainerExpired Kind = "container_expired" // the session and its files were deleted
	FileNotFound     Kind = "file_not_found"
	NotDownloadable  Kind = "not_downloadable" // it exists and cannot be downloaded
	FileExpired      Kind = "file_expired"
	NotReady         Kind = "not_ready" // the provider is still processing it
	TooLarge         Kind = "too_large"
	Quota            Kind = "quota"
	RateLimited      Kind = "rate_limited"
	Transient        Kind = "transient" // may work when tried again
	Auth             Kind = "auth"
	Invalid          Kind = "invalid"
	OutputsMissing   Kind = "outputs_missing" // the code ran, files were promised, none was found
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{ContainerExpired, FileNotFound, NotDownloadable, FileExpired, NotReady, TooLarge,
		Quota, RateLimited, Transient, Auth, Invalid, OutputsMissing}
}

// Error implements error.
func (k Kind) Error() string { return strings.ReplaceAll(string(k), "_", " ") }

// Error is an error of a provider.
type Error struct {
	Kind     Kind
	Provider string
	Op       string // the operation: "upload data.csv", "run"
	Status   int    // of HTTP; 0: none
	Code     string // the provider's code
	Message  string // the provider's message
	Hint     string // what to do, if more specific than [Kind.Hint]
	// RequestID identifies the request for the provider's support.
	RequestID  string
	RetryAfter time.Duration // asked for by the provider; 0: none
	// Attempts is the number of tries of [Retry.Do], which does not repeat an error
	// that has one.
	Attempts int
	// Ambiguous says that the request may have succeeded: it was sent, and its answer
	// got lost. [Ledger] looks for the object.
	Ambiguous bool
	Err       error
}

// Error implements error: the provider, the operation and the message, without keys.
func (e *Error) Error() string {
	return redact.Keys(e.text())
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

// causeText leaves out the address of a failed request, which may contain secrets.
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

// Gone returns nil if the error of a deletion says that the file does not exist and Stat
// confirms it: the error may be a gateway's, which did not ask the service.
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

// Repeats is the error of a list whose pages repeat: it would never end.
func Repeats(name, op string) error {
	return &Error{Kind: Invalid, Provider: name, Op: op,
		Message: "the pages of the list repeat themselves; it was left where that began",
		Hint:    "This is a fault of the service or of a gateway before it. What the list showed until then was used."}
}

// KindOf returns the kind of an error, or "".
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if k, ok := errors.AsType[Kind](err); ok {
		return k
	}
	return ""
}

// HintOf returns what the user can do about an error, or "".
func HintOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Hint != "" {
		return e.Hint
	}
	return KindOf(err).Hint()
}

// kindHints are the hints of kinds.
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
	Quota: "The account's storage or budget is used up. Delete remote files (airlock provider ls, airlock provider gc) " +
		"or raise the plan's limit.",
	RateLimited: "Too many requests for this account. Wait as long as the provider says, then try again.",
	Transient: "The provider or the network failed for the moment. Try again; if it lasts, " +
		"look at the provider's status page.",
	Auth: "The key is missing, wrong, or not allowed to do this. Check the provider's key and the rights of its project.",
	Invalid: "The provider refused the request as it is. Check the model's name, and that it supports code execution " +
		"and these files.",
	OutputsMissing: "The answer speaks of files that were not found. Ask the model to write them again, into the folder " +
		"for outputs.",
}

// Hint returns what the user can do about errors of this kind.
func (k Kind) Hint() string { return kindHints[k] }

// Retryable reports whether the same request may succeed when it is repeated.
func (k Kind) Retryable() bool {
	return k == Transient || k == RateLimited || k == NotReady
}
