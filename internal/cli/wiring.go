package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist"
	"github.com/airlock-run/airlock/assist/assignment/demo"
	"github.com/airlock-run/airlock/assist/provider/metrics"
	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/bucket"
	"github.com/airlock-run/airlock/internal/cluster"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/mutual"
	"github.com/airlock-run/airlock/internal/remote"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/walls"
	"github.com/airlock-run/airlock/internal/setup"
	"github.com/airlock-run/airlock/internal/volume"
	"github.com/airlock-run/airlock/internal/wire"
)

// This file wires the parts together: storage, sandbox and engine below, protocols
// and front door above.

// service is an engine with its storage and sandbox, and what the protocols need.
type service struct {
	engine       *engine.Service
	assistant    *assist.Serving // nil: there is none in this process
	interpreters *live.Service   // of live sessions
	below        []func() error  // closers, called in reverse order
	peers        *httpd.Peers    // nil: no cluster
	peerTLS      *mutual.TLS     // nil: no cluster
	member       *cluster.Member // nil: no cluster
	drain        func(ctx context.Context, node string, drain bool) error
	bodies       wire.Bodies // of all dialects
	kept         *storage
	workers      *workers // of an api; nil: programs run in this process
}

// storage is the index and the blobs of the engine.
type storage struct {
	index *index.DB
	blobs blobStore
	// signer is the bucket that has the blobs; nil: they are in a directory.
	signer remote.Signer
	// clock is the clock of expiry, for the engine too.
	clock func() time.Time
	space engine.Space // nil: not watched
	// volumes are those of a service; nil: it has none.
	volumes *volume.Store
	metrics *storageMetrics
}

// openStorage opens the storage in a data directory, and creates it if need be. A service
// passes its disk space, on which a reserve is kept.
func (a *app) openStorage(ctx context.Context, data string, space *disk.Space) (*storage, error) {
	if err := makeData(data); err != nil {
		return nil, err
	}
	kept := &storage{metrics: newStorageMetrics()}
	onIndex := []index.Option{index.WithObserver(kept.metrics.observe), index.WithQuota(ownerQuota(a.Config)),
		index.WithNew(func(ctx context.Context) error { return a.checkNoBlobs(ctx, data) })}
	room := func() error { return nil }
	if space != nil {
		kept.space = space
		onIndex = append(onIndex, index.WithReserve(space.Borrow))
		room = func() error {
			room, err := space.Room()
			if err != nil {
				return err
			}
			return room.Check("store file")
		}
	}
	var err error
	if kept.index, err = a.openIndex(ctx, data, onIndex); err != nil {
		return nil, err
	}
	kept.clock = kept.index.Now
	if folder := a.Config.Volumes(); folder != "" && data == a.Config.Data {
		if kept.volumes, err = volume.Open(folder); err != nil {
			return nil, errors.Join(command.DataError(folder, err), kept.index.Close())
		}
	}
	if kept.blobs, kept.signer, err = a.openBlobs(ctx, data, kept, room); err != nil {
		return nil, errors.Join(err, kept.index.Close())
	}
	return kept, nil
}

// blobStore is a directory or a bucket.
type blobStore interface {
	engine.Blobs
	io.Closer
}

// checkNoBlobs returns an error if there are blobs, which an index that is made now would not know.
func (a *app) checkNoBlobs(ctx context.Context, data string) error {
	var found bool
	var err error
	at := filepath.Join(data, "files")
	if a.Config.Blobs == "" || data != a.Config.Data {
		found, err = blob.Holds(at)
	} else {
		var address bucket.Address
		if address, err = bucket.ParseAddress(a.Config.Blobs); err == nil {
			at = "the bucket " + address.Bucket
			if found, err = bucket.Holds(ctx, address); err != nil {
				return bucketFailure(address, err)
			}
		}
	}
	if err == nil && found {
		err = fmt.Errorf("%w: %s has files that an empty index would not know", index.ErrMissing, at)
	}
	return err
}

// openBlobs opens the bucket that the settings name, else the directory of files.
func (a *app) openBlobs(
	ctx context.Context, data string, kept *storage, room func() error,
) (blobStore, remote.Signer, error) {
	if a.Config.Blobs == "" || data != a.Config.Data {
		files, err := blob.Open(filepath.Join(data, "files"), blob.WithRoom(room))
		if err != nil {
			return nil, nil, dataError(data, err)
		}
		return files, nil, nil
	}
	store, err := a.openBucket(ctx, data, kept, room)
	if err != nil {
		return nil, nil, err
	}
	return store, store, nil
}

// openBucket opens the bucket that the settings name.
func (a *app) openBucket(
	ctx context.Context, data string, kept *storage, room func() error,
) (*bucket.Store, error) {
	address, err := bucket.ParseAddress(a.Config.Blobs)
	if err != nil {
		return nil, &command.Failure{Code: command.ExitUsage, Word: "blobs", Err: err,
			Hint: "AIRLOCK_BLOBS is as s3://BUCKET/PREFIX?endpoint=https://s3.example.com&region=NAME"}
	}
	store, err := bucket.Open(ctx, bucket.Config{Address: address, Dir: filepath.Join(data, "cache"),
		Cache: a.Config.BlobCache, Locker: kept.index, Room: room,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return kept.metrics.transport(a.telemetry.Transport(next))
		}})
	if err != nil {
		return nil, bucketFailure(address, err)
	}
	return store, nil
}

// bucketFailure says which bucket cannot be used, and what to do.
func bucketFailure(address bucket.Address, err error) error {
	return &command.Failure{Code: command.ExitUnavailable, Word: "blobs", Err: fmt.Errorf("the bucket %s at %s: %w",
		address.Bucket,
		address.Endpoint, err), Hint: command.Explain(err).Hint}
}

// openIndex opens the index in the database that the settings name, else in the data
// directory. Either way it locks the directory for this process.
func (a *app) openIndex(ctx context.Context, data string, options []index.Option) (*index.DB, error) {
	path := filepath.Join(data, "index.db")
	if a.Config.Database == "" || data != a.Config.Data { // another directory is temporary
		db, err := index.Open(ctx, path, a.Log, options...)
		if err != nil {
			return nil, dataError(data, err)
		}
		return db, nil
	}
	if a.several() {
		options = append(options, index.WithReplicas())
	}
	if a.telemetry != nil {
		options = append(options, index.WithTracer(a.telemetry.Queries()))
	}
	db, err := index.OpenPostgres(ctx, a.Config.Database.Reveal(), path, a.Log, options...)
	ofBucket, isBucket := errors.AsType[*command.Failure](err)
	switch {
	case isBucket:
		return nil, ofBucket
	case errors.Is(err, index.ErrLocked), errors.Is(err, index.ErrMissing):
		return nil, dataError(data, err)
	case err != nil:
		return nil, &command.Failure{Code: command.ExitUnavailable, Word: "database", Err: err,
			Hint: "AIRLOCK_DATABASE, or its _FILE, names a PostgreSQL database that this service may make tables in; " +
				"psql with the same URL tells more"}
	}
	return db, nil
}

// makeData makes the data directory if it is missing.
func makeData(data string) error {
	if err := setup.CheckData(data); errors.Is(err, fs.ErrPermission) {
		return dataError(data, err)
	} else if err != nil {
		p := command.Explain(err)
		return command.Fail(command.ExitUnavailable, p.Hint, "%s", p.Message)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return dataError(data, err)
	}
	return nil
}

// watchDisk watches the disk of the data directory for a service. On a low disk it
// borrows the reserve for the start, until started is called, once or more.
func (a *app) watchDisk() (space *disk.Space, started func(), err error) {
	if err := makeData(a.Config.Data); err != nil {
		return nil, nil, err
	}
	if space, err = disk.Open(a.Config.Data, a.Config.MinFree); err != nil {
		return nil, nil, dataError(a.Config.Data, err)
	}
	a.borrow = space.Borrow
	room, err := space.Room()
	if err != nil {
		return nil, nil, dataError(a.Config.Data, err)
	}
	if !room.Low {
		return space, func() {}, nil
	}
	a.Log.Warn("the disk is low: uploads and runs are refused", "data", a.Config.Data, "free_bytes", room.Free, "min_free",
		room.Floor)
	return space, space.Borrow(), nil
}

// reserveOf returns a function that borrows the reserve in a state directory: that of this
// service, or in a command the one that a service keeps there.
func (a *app) reserveOf(dir string) func() (giveBack func()) {
	if a.borrow != nil {
		return a.borrow
	}
	return func() (giveBack func()) {
		space, err := disk.Open(dir, a.Config.MinFree)
		if err != nil {
			return func() {} // the full disk is reported elsewhere
		}
		return space.Borrow()
	}
}

func (s *storage) Close() error {
	err := errors.Join(s.blobs.Close(), s.index.Close())
	if s.volumes != nil {
		err = errors.Join(err, s.volumes.Close())
	}
	return err
}

// dataError gives an error of the data directory, or of the index in it, an exit code and a hint.
func dataError(data string, err error) error {
	f := &command.Failure{Code: command.ExitUnavailable, Err: err}
	switch {
	case errors.Is(err, index.ErrLocked):
		f.Word, f.Hint = "data_in_use", "one service at a time holds "+data+"; --data DIR names another directory"
	case errors.Is(err, index.ErrMissing):
		f.Word, f.Hint = "index_missing", "nothing was changed, and no file was removed. Files, runs and keys are known to "+
			"the index alone: put back index.db or the database, or restore a backup into another directory: airlock "+
			"restore FILE --data DIR. To begin without them, name an empty directory with --data, and an empty bucket"
	default:
		return command.DataError(data, err)
	}
	return f
}

// startService opens the storage in data, starts a sandbox, and puts an engine on both.
// at is the service's address; nil for a service of this process alone.
func (a *app) startService(
	ctx context.Context, data string, space *disk.Space, sandboxes sandboxes, at net.Addr,
) (_ *service, err error) {
	s := &service{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	kept, err := a.openStorage(ctx, data, space)
	if err != nil {
		return nil, err
	}
	s.kept, s.below = kept, append(s.below, kept.Close)
	sandbox, err := a.openSandbox(ctx, s, kept, sandboxes, at != nil)
	if err != nil {
		return nil, err
	}
	s.below = append(s.below, sandbox.Close)
	carrier, err := a.egressClient()
	if err != nil {
		return nil, err
	}
	s.below = append(s.below, carrier.Close)
	settings := a.engineConfig(kept)
	settings.Wall, settings.Traced = sandboxes.wall, a.telemetry.Run
	if settings.Month, err = engine.ParseMonthQuota(a.Config.OwnerMonth); err != nil {
		return nil, command.Fail(command.ExitUsage, "write it as `airlock serve --help` shows", "owner_month: %v", err)
	}
	if settings.Network, err = a.network(carrier); err != nil {
		return nil, err
	}
	member, err := a.join(ctx, s, kept, at)
	if err != nil {
		return nil, err
	}
	if member != nil {
		settings.Cluster = member
	}
	if kept.volumes != nil {
		settings.Volumes = kept.volumes
	}
	s.engine = engine.New(settings, sandbox, kept.blobs, kept.index, a.Log)
	if s.workers != nil {
		s.workers.acceptWorkers(member)
	}
	if err := s.engine.Open(ctx); err != nil {
		return nil, err
	}
	var secret []byte
	if s.peers != nil {
		secret = s.peers.Secret
	}
	s.interpreters = live.New(live.Config{Secret: secret, Idle: a.Config.LiveIdle, PerOwner: a.Config.OwnerLive,
		Total: cmp.Or(a.Config.Live, int(programMemory()/liveMemory)),
		Wait:  max(a.Config.QueueTime, 1), Queue: a.Config.Queue, QueuePerOwner: a.Config.OwnerQueue}, s.engine, a.Log)
	s.below = append(s.below, s.interpreters.Close)
	if member != nil {
		member.Follow(s)
	}
	return s, nil
}

// close closes the storage, the sandbox and the rest. The engine was shut down before.
func (s *service) close() error {
	var errs []error
	for i := len(s.below) - 1; i >= 0; i-- {
		errs = append(errs, s.below[i]())
	}
	s.below = nil
	return errors.Join(errs...)
}

// ownLauncher returns a launcher that starts executors from this process, for the process
// that serves. They are kept warm unless the settings say otherwise, or service is 0: for
// the single program of a command that would take longer than the program.
func (a *app) ownLauncher(service int) executor.Launcher {
	return a.launcher(service, service != 0 && a.Config.Warm)
}

func (a *app) launcher(service int, warm bool) executor.Launcher {
	return executor.NewLauncher(executor.LaunchOptions{Runtimes: a.Config.Runtimes(), Images: a.imagesFolder(),
		Fetched: a.imageCacheFolder(), Packages: a.defaultPackages(), WarmImages: a.warmImages(),
		Mounts: mountFolders(a.Config.Mounts), Volumes: a.Config.Volumes(),
		Lending: a.lending(service != 0), Warm: warm, Service: service,
		Log: a.Log})
}

// sandboxes are how the sandboxes of a service start.
type sandboxes struct {
	launcher executor.Launcher
	wall     engine.Wall // of programs that ask for none
}

// sandboxes returns those with the wall of the settings.
func (a *app) sandboxes(launcher executor.Launcher) sandboxes {
	return sandboxes{launcher, engine.Wall(a.Config.Wall)}
}

// startSandboxes starts the sandbox of programs that ask for no wall. That of another wall starts when it is needed.
func (a *app) startSandboxes(ctx context.Context, s sandboxes, serves bool) (engine.Sandbox, error) {
	return walls.Start(ctx, walls.Config{Own: s.wall, Close: s.launcher.Close,
		Start: func(ctx context.Context, wall engine.Wall) (engine.Sandbox, error) {
			began := time.Now()
			name := string(wall)
			if wall == engine.WallShared {
				name = "" // the executor's default
			}
			one, err := executor.Start(ctx, executor.Config{Launcher: unclosed{s.launcher}, Wall: name,
				Lending: a.lending(serves), Strict: a.Config.Strict(), Log: a.Log})
			if wall != s.wall && err != nil {
				a.Log.Warn("a wall that a program asked for did not start", "wall", wall, "error", err)
			} else if wall != s.wall {
				a.Log.Info("a wall that a program asked for has started", "wall", wall, "took", time.Since(began))
			}
			if err != nil {
				return nil, err
			}
			return one, nil
		}})
}

// unclosed is a launcher that others have, too.
type unclosed struct{ executor.Launcher }

// Close implements executor.Launcher.
func (unclosed) Close() error { return nil }

// lending returns the folder in which a service lends inputs to programs.
func (a *app) lending(serves bool) string {
	if !serves {
		return ""
	}
	return filepath.Join(a.Config.Data, "lending")
}

// startSweepTime bounds how long a start removes unreferenced blobs. The rest is removed in the
// background.
const startSweepTime = 200 * time.Millisecond

func (a *app) engineConfig(kept *storage) engine.Config {
	c := a.Config
	return engine.Config{
		Now:           kept.clock,
		Space:         kept.space,
		Concurrency:   c.Concurrency,
		Queue:         c.Queue,
		QueueTime:     max(c.QueueTime, 1), // 0 would be no bound
		Memory:        programMemory(),
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
			Files:  engine.FileLimit{Count: maxOutputs(), Total: 512 << 20},
		},
		FirstKey:  c.FirstKey.Reveal(),
		MaxUpload: c.MaxUpload,
		FileTTL:   c.FileTTL,
		SweepTime: startSweepTime,
		RunTTL:    c.RunTTL,
		DropCode:  !c.KeepCode,
		Packages:  a.packageSets(),
		Images:    imageRules(a.Config, a.images()),
		Mounts:    mountRules(a.Config),

		SnapshotTTL: c.SnapshotTTL, ConsumptionTTL: c.UsageTTL, AuditTTL: c.AuditTTL,
	}
}

// liveMemory is the memory reserved for an idle live interpreter. Python's takes a few
// MiB, and the files of its session come on top.
const liveMemory = 16 << 20

// maxOutputs bounds the files that a run may leave: each is open until it is stored, and
// no run may take more than a quarter of the process's limit of open files.
func maxOutputs() int {
	const most = 3000
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return 0
	}
	return int(min(most, files.Cur/4))
}

// programMemory returns the memory for programs: half of the machine's. The other half
// is for the files of sessions and for the service.
func programMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) / 2
}

// ownerQuota returns the quota of one owner.
func ownerQuota(c *config.Config) engine.Quota {
	return engine.Quota{Files: c.OwnerFiles, Bytes: c.OwnerDisk, Sessions: c.OwnerSessions, Results: c.OwnerResults}
}

// httpServer returns the front door of a service, with all protocols mounted.
func (a *app) httpServer(s *service, listen []net.Listener) (*httpd.Server, error) {
	numbers := httpd.NewMetrics(s.engine)
	countLive(numbers, s.interpreters.Counts)
	countMachine(numbers.Registry, readVersion(a.release))
	s.kept.register(numbers.Registry)
	mounts, err := a.mountDialects(s, numbers)
	if err != nil {
		return nil, err
	}
	if a.Config.DemoProject { // the reference API of a project, in memory
		mounts = append(mounts,
			httpd.Mount{Prefix: "/demo", Handler: &demo.Project{}, Public: true, MaxBody: 1 << 20})
	}
	page, err := a.page(s, mounts[0].Handler)
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, page)
	var server *httpd.Server
	mounts = append(mounts, s.linkMounts(func() http.Handler { return server.Handler() })...)
	if a.Config.RootDialect != "" {
		for _, m := range mounts {
			if m.Prefix == "/"+a.Config.RootDialect {
				m.Prefix, m.End = "/", nil // it ends once
				mounts = append(mounts, m)
			}
		}
	}
	if s.assistant != nil { // all processes with this data directory share its counters
		numbers.Registry.MustRegister(metrics.New(s.assistant.Counts))
	}
	numbers.Registry.MustRegister(nodeMetrics(s.nodes))
	if err := a.telemetry.Gather(context.Background(), numbers.Registry); err != nil {
		return nil, err
	}
	proxy, err := a.signInProxy()
	if err != nil {
		return nil, err
	}
	server, err = httpd.New(httpd.Options{
		Listen:        listen,
		Engine:        s.engine,
		Mounts:        mounts,
		Home:          page.Prefix + "/",
		Metrics:       numbers,
		MetricsToken:  a.Config.MetricsToken.Reveal(),
		TrustNetworks: a.Config.TrustNetworks,
		AllowHosts:    a.ownHosts(),
		Proxy:         proxy,
		MaxUpload:     a.Config.MaxUpload,
		Rate:          float64(a.Config.OwnerRate),
		Log:           a.Log,
		Version:       readVersion(a.release).Version,
		Peers:         s.peers,
		Trace:         a.telemetry.Handler,
	})
	return server, err
}
