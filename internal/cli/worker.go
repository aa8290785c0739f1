package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/cluster"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/mutual"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/remote"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image/oci"
	"github.com/airlock-run/airlock/internal/wire"
)

// workers is an api's view of its workers.
type workers struct {
	registry remote.Registry
	sandbox  *remote.Sandbox
	ring     *mutual.Ring // nil: no worker has a token
	secured  *mutual.TLS
	links    *mutual.Links           // nil before begin
	images   func() ([]string, bool) // ids of the cluster's; nil: it has none
	stop     func()                  // ends the polling
}

// openSandbox starts the sandbox of this process, or for an api that of its workers.
func (a *app) openSandbox(
	ctx context.Context, s *service, kept *storage, sandboxes sandboxes, serves bool,
) (engine.Sandbox, error) {
	if a.Config.Role != config.RoleAPI || !serves {
		var images *fetching
		if s != nil { // a command that looks into images has their files
			images = a.fetchImages()
		}
		sandbox, err := a.startSandboxes(ctx, sandboxes, serves)
		if err != nil {
			return nil, a.sandboxError(err)
		}
		return images.around(sandbox), nil
	}
	ring, err := mutual.NewRing(a.Config.WorkerToken.Reveal(), a.Config.WorkerTokens.Reveal())
	if err != nil {
		return nil, errors.Join(tokenFailure(err), sandboxes.launcher.Close())
	}
	w := &workers{stop: func() {}, ring: ring}
	if ring != nil {
		w.secured = ring.Server()
	}
	var sign func(context.Context, string) (string, error)
	if shared := a.sharedImages(); shared != nil {
		w.images, sign = shared.IDs, shared.Sign
	}
	w.sandbox = remote.New(remote.Config{SignImage: sign,
		Blobs: kept.blobs, Signer: kept.signer, TLS: w.secured, Ring: ring, Temp: a.Config.Data, Log: a.Log,
		Trace:     a.telemetry.Transport,
		QueueTime: a.Config.QueueTime, Self: w.self,
		Slots: func(slots int) {
			if s.engine != nil {
				s.engine.SetSlots(slots)
			}
		},
	})
	s.workers = w
	s.below = append(s.below, sandboxes.launcher.Close, w.close)
	return w.sandbox, nil
}

// workerTLS returns the TLS of connections within the cluster; nil without a token, on one
// machine alone.
func (a *app) workerTLS() (*mutual.TLS, error) {
	secured, err := mutual.Optional(a.Config.WorkerToken.Reveal())
	if err != nil {
		return nil, tokenFailure(err)
	}
	return secured, nil
}

func tokenFailure(err error) error {
	return &command.Failure{Code: command.ExitUsage, Word: "worker_token", Err: err,
		Hint: "`openssl rand -hex 32` makes one"}
}

// may returns an error for a worker that has no token for its name.
func (w *workers) may(r *http.Request, name string) error {
	if w.ring == nil {
		return nil
	}
	if err := w.ring.Check(r.TLS, name); err != nil {
		return &engine.Error{Op: "beat", Kind: engine.ErrForbidden, ID: name, Err: err}
	}
	return nil
}

// self returns the epoch of this api, zero before it has one.
func (w *workers) self() int64 {
	switch registry := w.registry.(type) {
	case members:
		return int64(registry.Self())
	case *remote.Local:
		return registry.Self()
	}
	return 0
}

func (w *workers) update() { w.sandbox.Update(w.registry.Workers()) }

// members implements remote.Registry with the table of nodes of a cluster.
type members struct{ *cluster.Member }

// BeatWorker implements remote.Registry.
func (m members) BeatWorker(ctx context.Context, n remote.Node) (int64, bool, error) {
	epoch, drain, err := m.Member.BeatWorker(ctx, engine.Node{
		Epoch: engine.Epoch(n.Epoch), Name: n.Name, Role: engine.RoleWorker, Address: n.Address, Version: n.Version,
		Slots: n.Slots, Languages: n.Languages, Draining: n.Draining,
		Load: engine.Load{Running: n.Slots - n.Free, Held: n.Held, DiskFree: n.DiskFree, MemoryFree: n.MemoryFree},
	})
	return int64(epoch), drain, err
}

// LeaveWorker implements remote.Registry.
func (m members) LeaveWorker(ctx context.Context, name string, epoch int64) error {
	return m.Member.LeaveWorker(ctx, name, engine.Epoch(epoch))
}

// Workers implements remote.Registry. A silent worker gets no new programs, but is not lost
// before it is declared dead: all are silent while the database is away.
func (m members) Workers() []remote.Node {
	var list []remote.Node
	looked := m.Looked()
	for _, n := range m.Nodes() {
		if n.Role == engine.RoleWorker && (!n.Dead || n.Revoked) {
			list = append(list, remote.Node{Name: n.Name, Epoch: int64(n.Epoch), Address: n.Address, Slots: n.Slots,
				Revoked: n.Revoked, Free: n.Slots - n.Load.Running, Languages: n.Languages,
				Draining: n.Draining || n.Silent > engine.DeadAfter, Heard: looked.Add(-n.Silent)})
		}
	}
	return list
}

// APIs implements remote.Registry.
func (m members) APIs() (epochs []int64) {
	for _, n := range m.Nodes() {
		if n.Role != engine.RoleWorker && !n.Dead {
			epochs = append(epochs, int64(n.Epoch))
		}
	}
	return epochs
}

// acceptWorkers accepts workers from now on, and polls the registry: that of the cluster if this
// service is a member.
func (w *workers) acceptWorkers(member *cluster.Member) {
	w.registry = remote.NewLocal()
	if member != nil {
		w.registry = members{member}
	}
	w.links = mutual.NewLinks(w.secured, remote.BeatHandler(w.registry, w.update, w.images, w.may))
	w.links.Verified = httpd.Authenticated
	w.update()
	w.stop = command.InBackground(context.Background(), func(ctx context.Context) {
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.update()
			case <-ctx.Done():
				return
			}
		}
	})
}

// drainPropagation is how long it takes until all apis know that a worker is draining.
const drainPropagation = 2*engine.BeatInterval + 2*pollInterval

// pollInterval is the interval at which an api polls its registry of workers.
const pollInterval = 250 * time.Millisecond

func (w *workers) close() error {
	w.stop()
	if w.links == nil {
		return nil
	}
	return w.links.Close()
}

// dropSecrets executes a worker again without the secrets in its environment that it does
// not need.
func (a *app) dropSecrets() error {
	if a.Config.Role != config.RoleWorker || a.split || !a.Config.Unwanted() {
		return nil
	}
	a.Log.Warn("a worker has no use for a database, a bucket or keys: those in its environment are dropped; give them " +
		"to apis alone, since it runs beside untrusted programs")
	env := append(a.Config.Environ(a.Input.Home), a.Config.ServiceSecrets()...)
	return syscall.Exec("/proc/self/exe", os.Args, env)
}

// serveWorker runs programs for apis until it is asked to end.
func (a *app) serveWorker(ctx context.Context, launcher executor.Launcher) (err error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, command.EndSignals()...)
	defer signal.Stop(signals)
	limitMemory()
	tcp, err := listenTCP(a.Config.Listen)
	if err != nil {
		return errors.Join(err, launcher.Close())
	}
	defer tcp.Close()
	secured, err := a.workerTLS()
	if err != nil {
		return errors.Join(err, launcher.Close())
	}
	images, err := a.openWorkerData()
	if err != nil {
		return errors.Join(err, launcher.Close())
	}
	defer images.Close()
	sandbox, err := a.startSandboxes(ctx, a.sandboxes(launcher), true)
	if err != nil {
		return a.sandboxError(err)
	}
	defer func() { err = errors.Join(err, sandbox.Close()) }()
	parts, end, err := a.workerConfig(ctx, sandbox)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	parts.Images = images
	w := remote.NewWorker(parts)
	server, err := remote.Server(tcp, a.telemetry.Handler(w.Handler()), secured, a.Log)
	if err != nil {
		return command.Fail(command.ExitUnavailable, mutual.Hint, "%w", err)
	}
	serving := make(chan error, 1)
	go func() { serving <- remote.Serve(server, tcp) }()
	beats := &remote.Beats{Worker: w, Node: a.workerNode(tcp.Addr(), parts.Slots), APIs: a.Config.WorkerAPIs,
		Client:  outbound.Guard(http.Client{Transport: mutual.Transport(secured, remote.LinkPath)}),
		Expired: func() { w.Forget(ctx) }, Machine: a.machineRoom}
	health, err := a.serveHealth(ctx, beats, sandbox)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer health.Close()
	telling, tellNoMore := context.WithCancel(context.WithoutCancel(ctx))
	var told sync.WaitGroup
	told.Go(func() { beats.Run(telling) })
	a.Log.Info("the worker is ready", "address", beats.Node.Address, "slots", parts.Slots, "apis", a.Config.WorkerAPIs)

	select {
	case err = <-serving:
	case <-signals:
		a.drainWorker(ctx, w)
	case <-ctx.Done(): // of a terminal that is gone
		a.drainWorker(ctx, w)
	}
	tellNoMore()
	told.Wait()
	return errors.Join(err, server.Close())
}

// openWorkerData makes the data directory of a worker and opens the images in it, which the executor
// sees if they are there before it.
func (a *app) openWorkerData() (*oci.Cache, error) {
	if err := makeData(a.Config.Data); err != nil {
		return nil, err
	}
	return a.openImageCache()
}

// drainWorker waits until a worker runs nothing, for the time that it has, or until a second signal. Then it waits
// until apis have noticed that the worker ends, or until another signal: it refuses requests, and they choose another.
func (a *app) drainWorker(ctx context.Context, w *remote.Worker) {
	signals := laterSignals()
	defer signal.Stop(signals)
	a.Log.Info("stopping: nothing new is accepted, a second signal ends what runs", "drain_time", a.Config.DrainTime)
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.Config.DrainTime)
	var asked sync.WaitGroup
	asked.Go(func() {
		select {
		case <-signals:
			cancel()
		case <-draining.Done():
		}
	})
	_ = w.Drain(draining) // programs that have not ended are lost
	cancel()
	asked.Wait()
	select {
	case <-time.After(drainPropagation):
	case <-signals:
	}
}

// workerConfig opens the network and the cache of a worker, until end is called.
func (a *app) workerConfig(ctx context.Context, sandbox engine.Sandbox) (
	c remote.WorkerConfig, end func() error, err error) {
	carrier, err := a.egressClient()
	if err != nil {
		return c, nil, err
	}
	low := func() error {
		room, err := disk.Look(a.Config.Data, a.Config.MinFree)
		if err != nil {
			return err
		}
		return room.Check("run")
	}
	c = remote.WorkerConfig{Sandbox: sandbox, Room: low, Slots: a.Config.Concurrency, Seats: a.Config.Concurrency,
		Log: a.Log}
	if c.Network, err = a.network(carrier); err == nil {
		c.Cache, err = blob.OpenCache(ctx, filepath.Join(a.Config.Data, "cache"), a.Config.BlobCache)
	}
	if err != nil {
		return c, nil, errors.Join(err, carrier.Close())
	}
	if c.Slots == 0 {
		c.Slots, c.Seats = 2*engine.Processors(), engine.RestingPerCore*engine.Processors()
		c.Memory = programMemory()
	}
	return c, func() error { return errors.Join(c.Cache.Close(), carrier.Close()) }, nil
}

// serveHealth serves `airlock health` on the socket in the data directory.
func (a *app) serveHealth(ctx context.Context, beats *remote.Beats, sandbox engine.Sandbox) (io.Closer, error) {
	local, err := a.listenUnix(ctx)
	if err != nil {
		return nil, err
	}
	health := &http.Server{Handler: a.workerHealth(beats, sandbox), ReadHeaderTimeout: closeTimeout}
	go func() { _ = health.Serve(local) }() // ends with Close
	return health, nil
}

// workerHealth returns the handler for the health of a worker.
func (a *app) workerHealth(beats *remote.Beats, sandbox engine.Sandbox) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/health", func(w http.ResponseWriter, r *http.Request) {
		body := client.Health{Status: client.HealthOK, Version: readVersion(a.release).Version}
		isolation, err := sandbox.Isolation(r.Context())
		if err == nil {
			body.Isolation = &client.Isolation{Wall: client.Wall(isolation.Wall), Backend: isolation.Backend,
				Strict: isolation.Strict, Summary: isolation.Summary}
			for _, l := range isolation.Layers {
				body.Isolation.Layers = append(body.Isolation.Layers,
					client.Layer{Name: l.Name, State: client.LayerState(l.State), Detail: l.Detail, Cure: l.Cure})
			}
			err = beats.Ready()
		}
		if err != nil {
			body.Status, body.Problem = client.HealthDegraded, err.Error()
		}
		wire.Write(w, http.StatusOK, "application/json", wire.Encode(body))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		wire.Write(w, http.StatusNotFound, "application/json", []byte(`{"error":{"code":"not_found",`+
			`"message":"this is a worker, which runs programs for apis","hint":"name an api with --server URL"}}`))
	})
	return mux
}

// checkWorker refuses settings that a worker must not have.
func (a *app) checkWorker() error {
	switch {
	case a.Config.Role != config.RoleWorker:
		return nil
	case len(a.Config.WorkerAPIs) == 0:
		return command.Fail(command.ExitUsage, "name it with --api URL", "a worker needs the address of an api")
	case a.Config.Database != "" || a.Config.Blobs != "":
		return command.Fail(command.ExitUsage, "name database and bucket for apis only",
			"a worker runs beside untrusted programs and must not have database or bucket in its settings file or flags")
	}
	return nil
}

// workerNode describes a worker to apis.
func (a *app) workerNode(at net.Addr, slots int) remote.Node {
	name, address := a.Config.Node()
	if a.Config.Advertise == "" {
		address = at.String()
	}
	n := remote.Node{Name: name, Version: readVersion(a.release).Version, Address: "http://" + address, Slots: slots,
		Languages: languageNames()}
	if strings.HasSuffix(name, "-0") { // the port was not known before
		_, port, _ := net.SplitHostPort(address)
		n.Name = strings.TrimSuffix(name, "0") + port
	}
	return n
}
