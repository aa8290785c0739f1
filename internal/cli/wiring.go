package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/dialect/onyx"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
	"github.com/airlock-run/airlock/internal/setup"
)

// This file is the one place where the parts become a whole: storage, sandbox
// and engine below, the protocols and the front door above.

// service is an engine and what it stands on.
type service struct {
	engine *engine.Service
	work   *native.Work       // folders and projects; nil: none
	live   *conversation.Live // conversations with models; nil: none
	below  []func() error     // to be closed, last first
}

// storage are the two halves of what the engine keeps.
type storage struct {
	index *index.DB
	blobs *blob.Store
	// clock is the one by which things expire, for the engine too.
	clock func() time.Time
}

// openStorage opens what is kept in a data directory, and makes it if need be.
func (a *app) openStorage(ctx context.Context, data string) (*storage, error) {
	if err := setup.CheckData(data); err != nil {
		p := explain(err)
		return nil, fail(exitUnavailable, p.Hint, "%s", p.Message)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, dataError(data, err)
	}
	clock := engine.SteadyClock(time.Now)
	db, err := index.Open(ctx, filepath.Join(data, "index.db"), a.log, index.WithClock(clock), index.WithQuota(ownerQuota(a.cfg)))
	if err != nil {
		return nil, dataError(data, err)
	}
	blobs, err := blob.Open(filepath.Join(data, "files"))
	if err != nil {
		return nil, errors.Join(dataError(data, err), db.Close())
	}
	return &storage{db, blobs, clock}, nil
}

func (s *storage) close() error { return errors.Join(s.blobs.Close(), s.index.Close()) }

// dataError says what to do about a data directory that cannot be used.
func dataError(data string, err error) error {
	f := &failure{code: exitUnavailable, err: err}
	switch {
	case errors.Is(err, index.ErrLocked):
		f.word, f.hint = "data_in_use", "one service at a time holds "+data+"; --data DIR names another directory"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		f.word, f.hint = "data_not_writable", "this user must be able to write to "+data+"; --data DIR names another directory"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		f.word, f.hint = "disk_full", "make room on the disk that holds "+data
	case errors.Is(err, syscall.ENOTDIR):
		f.hint = data + " is no directory; --data DIR names another one"
	}
	return f
}

// startService opens the storage in data, starts a sandbox, and puts an
// engine on both.
func (a *app) startService(ctx context.Context, data string, launcher linux.Launcher) (_ *service, err error) {
	s := &service{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	kept, err := a.openStorage(ctx, data)
	if err != nil {
		return nil, err
	}
	s.below = append(s.below, kept.close)
	sandbox, err := linux.Start(ctx, linux.Config{Launcher: launcher, Strict: a.cfg.Strict(), Log: a.log})
	if err != nil {
		return nil, a.sandboxError(err)
	}
	s.below = append(s.below, sandbox.Close)
	s.engine = engine.New(engineConfig(a.cfg, kept.clock), sandbox, kept.blobs, kept.index, a.log)
	if err := s.engine.Open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// close closes what the engine stands on. The engine was shut down before.
func (s *service) close() error {
	var errs []error
	for i := len(s.below) - 1; i >= 0; i-- {
		errs = append(errs, s.below[i]())
	}
	s.below = nil
	return errors.Join(errs...)
}

// ownLauncher starts executors from this process. A service keeps them warm,
// unless it was told not to; for a single program that would take longer than
// the program.
func (a *app) ownLauncher(service bool) linux.Launcher {
	return linux.NewLauncher(linux.LaunchOptions{Runtimes: a.cfg.Runtimes(), Warm: service && a.cfg.Warm, Log: a.log})
}

func engineConfig(c *config.Config, clock func() time.Time) engine.Config {
	return engine.Config{
		Now:           clock,
		Concurrency:   c.Concurrency,
		Queue:         c.Queue,
		QueuePerOwner: c.OwnerQueue,
		RunsPerOwner:  c.OwnerRuns,
		Quota:         ownerQuota(c),
		Defaults: engine.Limits{
			Timeout: c.DefaultTimeout, Memory: c.DefaultMemory, Processes: c.DefaultProcesses,
			Output: engine.OutputLimit{Bytes: int(c.DefaultOutput)},
		},
		Maxima: engine.Limits{
			Timeout: c.MaxTimeout, Memory: c.MaxMemory, Processes: c.MaxProcesses,
			Output: engine.OutputLimit{Bytes: int(c.MaxOutput)},
		},
		MaxUpload: c.MaxUpload,
		FileTTL:   c.FileTTL,
	}
}

// ownerQuota is what one owner may keep.
func ownerQuota(c *config.Config) engine.Quota {
	return engine.Quota{Files: c.OwnerFiles, Bytes: c.OwnerDisk, Sessions: c.OwnerSessions, Results: c.OwnerResults}
}

// httpServer puts the protocols and the front door before an engine.
func (a *app) httpServer(s *service, listen []net.Listener) (*httpd.Server, error) {
	metrics := httpd.NewMetrics(s.engine)
	options := native.Options{Caller: httpd.Caller, MaxUpload: a.cfg.MaxUpload, Log: a.log, Work: s.work}
	if s.live != nil {
		options.Conversations = s.live.Host()
	}
	mounts := []httpd.Mount{
		{Prefix: "/api/v1", Handler: native.New(s.engine, options), Open: []string{"/openapi.yaml"}, Trusted: true},
		a.onyx(s, metrics),
	}
	mounts = append(mounts, projectMounts(mounts[0])...)
	if a.cfg.DemoProject {
		mounts = append(mounts, demoMount())
	}
	libreChat, err := a.libreChat(s)
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, libreChat)
	page, err := a.page(s)
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, page)
	if a.cfg.RootDialect != "" {
		for _, m := range mounts {
			if m.Prefix == "/"+a.cfg.RootDialect {
				m.Prefix = "/"
				mounts = append(mounts, m)
			}
		}
	}
	return httpd.New(httpd.Options{
		Listen:        listen,
		Engine:        s.engine,
		Mounts:        mounts,
		Home:          page.Prefix + "/",
		Metrics:       metrics,
		TrustNetworks: a.cfg.TrustNetworks,
		AllowHosts:    a.cfg.AllowHosts,
		MaxUpload:     a.cfg.MaxUpload,
		Rate:          float64(a.cfg.OwnerRate),
		Log:           a.log,
		Version:       readVersion(a.release).Version,
	})
}

// onyx mounts what Onyx speaks. It has no keys, so trusted networks come in
// without one.
func (a *app) onyx(s *service, metrics *httpd.Metrics) httpd.Mount {
	c := &a.cfg.Onyx
	maxFile := min(c.MaxFile, a.cfg.MaxUpload)
	return httpd.Mount{
		Prefix: "/onyx",
		Handler: onyx.New(s.engine, onyx.Options{
			Caller:     httpd.Caller,
			MaxTimeout: c.MaxTimeout, MaxOutput: int(c.MaxOutput), MaxFile: maxFile, FileTTL: c.FileTTL,
			Memory: c.Memory, CPUTime: c.CPUTime,
			Registry: metrics.Registry, Metrics: metrics.Handler(), Log: a.log,
		}),
		Open:    onyx.Open(),
		Trusted: true,
		MaxBody: max(maxFile, onyx.MaxJSON) + formRoom,
		Refuse:  onyx.RefuseWith(maxFile),
	}
}

// formRoom is for what stands around a file in a form.
const formRoom = 1 << 20
