package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Blobs keeps bytes under their SHA-256.
type Blobs interface {
	BlobReader

	// Put stores all bytes of r. It returns ErrTooLarge above max bytes, and
	// ErrFull without free space. When it returns, the bytes survive a power
	// cut. The blob is pinned: Delete skips it until Unpin, so that the caller
	// has time to record it.
	Put(ctx context.Context, r io.Reader, max int64) (Blob, error)

	// Unpin ends the protection that one Put gave.
	Unpin(Digest)

	// Delete removes a blob, unless it is pinned. A missing blob is no error.
	Delete(ctx context.Context, digest Digest) error

	// Sweep removes each unpinned blob that keep refuses, and the remains of
	// interrupted uploads. It returns how many blobs it removed.
	Sweep(ctx context.Context, keep func(Digest) bool) (int, error)
}

// BlobReader reads stored bytes. Bytes that do not match their digest count as
// absent.
type BlobReader interface {
	// Open returns the bytes in a file. If they are absent, damaged, or not size
	// bytes long, it returns ErrNotFound.
	Open(ctx context.Context, digest Digest, size int64) (*os.File, error)

	// Read is Open for a reader that needs no file: small blobs may come from
	// memory, but only while the store still has them.
	Read(ctx context.Context, digest Digest, size int64) (Content, error)

	// Has reports whether Open would find the bytes, without reading large ones.
	Has(ctx context.Context, digest Digest, size int64) bool
}

// Content is the bytes of a file. The caller closes it.
type Content interface {
	io.ReadSeekCloser
	io.WriterTo
}

// Blob is the address and the length of stored bytes.
type Blob struct {
	SHA256 Digest
	Size   int64
}

// Space measures the disk that blobs and index share.
type Space interface {
	// Room returns the free space. It is cheap, because every run calls it.
	Room() (Room, error)
}

// Room is the free space of a disk.
type Room struct {
	Free  int64 // bytes
	Total int64 // bytes of the disk
	Floor int64 // bytes that stay free
	Low   bool  // nothing more is accepted: Free is below Floor, or inodes are short
}

// Check returns ErrFull, with a hint, when the disk is low.
func (r Room) Check(op string) error {
	if !r.Low {
		return nil
	}
	return &Error{
		Op: op, Kind: ErrFull, Refusal: RefusedDisk, Err: errors.New("the disk is low"),
		Hint: fmt.Sprintf(
			"The disk of the service is nearly full: %s are free, and below %s (min_free), or with hardly any inodes left, "+
				"it takes no uploads and no runs. Delete files, wait until some expire, or ask the operator for room.",
			byteCount(max(r.Free, 0)), byteCount(r.Floor)),
	}
}

// Index records sessions, files, runs and keys. Each method is one
// transaction, durable when it returns. Every look-up names its owner; an
// object of another owner is ErrNotFound.
type Index interface {
	FileIndex
	SessionIndex
	SnapshotIndex
	VolumeIndex
	RunIndex
	KeyIndex
	NetworkIndex
	ConsumptionIndex
	AuditIndex

	// Touch moves the expiry of files and sessions to the time of use + TTL, never
	// backwards. It skips IDs that do not exist.
	Touch(ctx context.Context, uses map[ID]time.Time) error

	// Usage returns the usage of an owner. If the index has a Quota, a method
	// that would exceed it returns ErrFull and changes nothing.
	Usage(ctx context.Context, owner Owner) (Usage, error)
}

// FileIndex records files.
type FileIndex interface {
	AddFile(ctx context.Context, file File) error
	File(ctx context.Context, owner Owner, id ID) (File, error)
	// OwnerOf returns the owner of a file with that origin.
	OwnerOf(ctx context.Context, origin Origin, id ID) (Owner, error)
	Files(ctx context.Context, query FileQuery) ([]File, error)
	// DeleteFile deletes a file and its places in sessions.
	DeleteFile(ctx context.Context, owner Owner, id ID) error
	// ExpireFiles deletes up to limit files that expired before now, and
	// returns how many.
	ExpireFiles(ctx context.Context, now time.Time, limit int) (int, error)
	// Unreferenced returns the digests that no file has, and Digests the
	// digests of all files, those of snapshots included.
	Unreferenced(ctx context.Context, digests []Digest) ([]Digest, error)
	Digests(ctx context.Context) (map[Digest]bool, error)
	// Young reports whether the index was made so recently that what it does not know
	// is not taken for waste yet: it may be an index of nothing beside the files of a lost one.
	Young(ctx context.Context) (bool, error)
	// Sweeping runs do, unless another node is in Sweeping: one node at a time
	// searches for unreferenced blobs.
	Sweeping(ctx context.Context, do func() error) error
}

// SessionIndex records sessions and the places of files in them.
type SessionIndex interface {
	AddSession(ctx context.Context, session Session, files []SessionFile) error
	Session(ctx context.Context, owner Owner, id ID) (Session, error)
	Sessions(ctx context.Context, query SessionQuery) ([]Session, error)
	// LinkFiles puts files into a session; a link replaces the link at the same path.
	LinkFiles(ctx context.Context, files []SessionFile) error
	// SessionFiles returns the files of a session in order of path, File.Path
	// set to the place in the session.
	SessionFiles(ctx context.Context, owner Owner, id ID) ([]File, []SessionFile, error)
	// SessionFile returns one file of a session and its first place there.
	SessionFile(ctx context.Context, owner Owner, session, file ID) (File, SessionFile, error)
	// DeleteSession deletes a session and its links; the files stay.
	DeleteSession(ctx context.Context, owner Owner, id ID) error
	// ExpiredSessions returns up to limit sessions that expired before now.
	ExpiredSessions(ctx context.Context, now time.Time, limit int) ([]Session, error)
	// SetScope replaces the Scope of a session.
	SetScope(ctx context.Context, owner Owner, id ID, scope string) error
	// NameSession sets the name of a session.
	NameSession(ctx context.Context, owner Owner, id ID, name string) error
	// SetLive replaces the Live of a live session.
	SetLive(ctx context.Context, owner Owner, id ID, live string) error
	// OriginSessions returns the sessions of every owner that an edge has made, and that
	// belong to a node, or to others.
	OriginSessions(ctx context.Context, origin Origin, holder Epoch, others bool) ([]Session, error)
	// HeldSessions returns every session of a kind whose workspace a node has.
	HeldSessions(ctx context.Context, holder Epoch) ([]Session, error)
}

// SnapshotIndex records snapshots, and sessions that are copies.
type SnapshotIndex interface {
	// AddSnapshot records a snapshot with the files that its session has, and returns it
	// with what it is made of: Kind, Live, Files and Bytes.
	AddSnapshot(ctx context.Context, snapshot Snapshot) (Snapshot, error)
	Snapshot(ctx context.Context, owner Owner, id ID) (Snapshot, error)
	Snapshots(ctx context.Context, query SnapshotQuery) ([]Snapshot, error)
	// DeleteSnapshot deletes a snapshot and returns the digests of its files.
	DeleteSnapshot(ctx context.Context, owner Owner, id ID) ([]Digest, error)
	// ExpireSnapshots deletes up to limit snapshots that expired before now, and
	// returns how many.
	ExpireSnapshots(ctx context.Context, now time.Time, limit int) (int, error)
	// AddCopies records sessions of one owner, each with files of its own that have the
	// contents of those of from, for ttl. It is a use of a snapshot.
	AddCopies(ctx context.Context, from CopySource, sessions []Session, ttl time.Duration) error
}

// RunIndex records runs.
type RunIndex interface {
	// StartRun records a run with its implicit session, if it has one. With an
	// idempotency key that this owner used before it records nothing and
	// returns the earlier run's ID: with ErrConflict if the fingerprint of the
	// request differs.
	StartRun(ctx context.Context, run *Run, session *Session, key string, fingerprint Digest) (earlier ID, err error)
	// EarlierRun returns the run that this owner started with an idempotency
	// key: ErrNotFound if there is none, ErrConflict if the fingerprint of its
	// request differs.
	EarlierRun(ctx context.Context, owner Owner, key string, fingerprint Digest) (ID, error)
	// FinishRun records how a run ended, its output events, its files and
	// their places in its session, and removes from the session the paths in
	// deleted, all in one transaction.
	FinishRun(ctx context.Context, run *Run, log []OutputChunk, deleted []string) error
	// SaveFiles records files of a session, and their places in it, without the
	// paths in deleted: of a run that is no run of its own.
	SaveFiles(ctx context.Context, run *Run, deleted []string, now time.Time) error
	// InsertFinished records runs that began and ended unrecorded: all or none. They
	// need not be durable when it returns.
	InsertFinished(ctx context.Context, runs ...FinishedRun) error
	Run(ctx context.Context, owner Owner, id ID) (*Run, error)
	// NameRun sets the name of a run.
	NameRun(ctx context.Context, owner Owner, id ID, name string) error
	// RunLog returns the output of a finished run in its original pieces.
	RunLog(ctx context.Context, owner Owner, id ID) ([]OutputChunk, error)
	Runs(ctx context.Context, query RunQuery) ([]Run, error)
	// IndexRuns makes up to limit runs that have ended findable by RunQuery.Text, and
	// returns how many.
	IndexRuns(ctx context.Context, limit int) (int, error)
	// InterruptRuns marks every run as interrupted that is not final and that no live
	// node has.
	InterruptRuns(ctx context.Context, now time.Time) (int, error)
	// ExpireRuns deletes up to limit runs that ended before a time.
	ExpireRuns(ctx context.Context, before time.Time, limit int) (int, error)
}

// FinishedRun is a run without files that is recorded once, when it has ended.
type FinishedRun struct {
	Run     *Run
	Session *Session // implicit
	Log     []OutputChunk
}

// OutputChunk is a piece of output text, in order of arrival.
type OutputChunk struct {
	Stream Stream
	Data   string
}

// KeyIndex records keys.
type KeyIndex interface {
	// AddKey records a key, and RevokeKey ends one, with the entries of the audit log: all or nothing.
	AddKey(ctx context.Context, key Key, audit ...AuditEntry) error
	Key(ctx context.Context, id string) (Key, error)
	Keys(ctx context.Context) ([]Key, error)
	RevokeKey(ctx context.Context, id string, now time.Time, audit ...AuditEntry) error
}
