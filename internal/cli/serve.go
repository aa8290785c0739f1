package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/setup"
)

func (a *app) serve() *cobra.Command {
	socket := -1
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start"},
		Short:      "Serves the HTTP API, on 127.0.0.1:8000 unless told otherwise",
		Long: `Serves the HTTP API, on 127.0.0.1:8000 unless told otherwise, and on the unix
socket airlock.sock in the data directory, through which the other commands find
it.

As root the service itself runs as the user airlock, which setup makes; only a
small parent that starts sandboxes keeps root's rights.

The first SIGTERM, SIGHUP or Ctrl-C takes no new runs and lets the running
ones end, within --drain-time; a second one ends them at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.split = socket >= 0
			if err := a.dropSecrets(); err != nil {
				return err
			}
			if err := a.checkWorker(); err != nil {
				return err
			}
			if !a.split && a.Config.Role != config.RoleWorker { // which has images without a name
				defer command.InBackground(cmd.Context(), a.sweepImages)()
			}
			switch {
			case a.split:
				return a.serveRole(cmd.Context(), executor.RemoteLauncher(os.NewFile(uintptr(socket), "launcher")))
			case os.Geteuid() == 0:
				return a.serveAsRoot(cmd.Context())
			}
			return a.serveRole(cmd.Context(), a.ownLauncher(os.Getpid()))
		},
	}
	command.AddOptions(cmd.Flags(), config.Service)
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "api" {
			name = "worker-api"
		}
		return pflag.NormalizedName(name)
	})
	cmd.Flags().IntVar(&socket, "launcher-socket", -1,
		"number of the inherited socket to the process that starts sandboxes")
	cmd.Flags().Lookup("launcher-socket").Hidden = true
	return cmd
}

// serveRole runs the role of this process.
func (a *app) serveRole(ctx context.Context, launcher executor.Launcher) error {
	ended, err := a.startTelemetry(ctx)
	if err != nil {
		return errors.Join(err, launcher.Close())
	}
	defer ended()
	if a.Config.Role == config.RoleWorker {
		return a.serveWorker(ctx, launcher)
	}
	return a.serveHTTP(ctx, launcher)
}

// serveHTTP runs the service until it is asked to end.
func (a *app) serveHTTP(ctx context.Context, launcher executor.Launcher) (err error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, command.EndSignals()...)
	defer signal.Stop(signals)

	limitMemory()
	// The port first: it is most often the problem, and cheap to try.
	tcp, err := listenTCP(a.Config.Listen)
	if err != nil {
		return err
	}
	defer tcp.Close()
	space, started, err := a.watchDisk()
	if err != nil {
		return err
	}
	defer started()
	s, err := untilSignal(ctx, signals, func(ctx context.Context) (*service, error) {
		return a.startService(ctx, a.Config.Data, space, a.sandboxes(launcher), tcp.Addr())
	})
	if errors.Is(err, errSignal) {
		a.Log.Info("stopped before the service was ready: the next start continues from there")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := a.startAssistant(ctx, s); err != nil {
		return errors.Join(err, shutDownNow(s.engine))
	}
	unixSocket, err := a.listenUnix(ctx)
	if err != nil {
		return errors.Join(err, shutDownNow(s.engine))
	}
	server, err := a.httpServer(s, []net.Listener{tcp, unixSocket})
	if err != nil {
		unixSocket.Close()
		return errors.Join(a.explainExposed(err), shutDownNow(s.engine))
	}
	started()
	serving := make(chan error, 1)
	go func() { serving <- server.Serve() }()
	a.greet(ctx, s.engine, tcp.Addr())
	a.warnOfImages()

	select {
	case err := <-serving:
		return errors.Join(err, shutDownNow(s.engine))
	case <-signals:
	case <-ctx.Done():
	}
	hurry := laterSignals()
	defer signal.Stop(hurry)
	a.Log.Info("stopping: no new runs are taken, a second signal ends the running ones", "running",
		s.engine.Stats().Running, "drain_time", a.Config.DrainTime)
	return errors.Join(a.drain(s, server, hurry), <-serving)
}

// laterSignals returns a channel for the signals after the one that has just asked to end. A context and a channel
// get that one in either order: Notify returns when both have it.
func laterSignals() chan os.Signal {
	later := make(chan os.Signal, 1)
	signal.Notify(later, command.EndSignals()...)
	return later
}

var errSignal = errors.New("a signal ended the start")

// untilSignal starts a service, and cancels the start at a signal: migrating an index with
// millions of runs takes minutes. A signal that comes too late is put back.
func untilSignal(
	ctx context.Context, signals chan os.Signal, start func(context.Context) (*service, error),
) (*service, error) {
	ctx, cancel := context.WithCancel(ctx) // the service keeps it
	started, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-signals:
			signals <- s
			cancel()
		case <-started:
		}
	}()
	s, err := start(ctx)
	close(started)
	<-watched
	if err != nil && ctx.Err() != nil && len(signals) > 0 {
		err = errors.Join(errSignal, err)
	}
	return s, err
}

// limitMemory sets a soft limit that keeps memory for programs, unless GOMEMLIMIT is set.
// It is far above what the service uses; requests have their own bounds.
func limitMemory() {
	const most = 1 << 30
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return
	}
	limit := int64(most)
	if programs := programMemory(); programs > 0 {
		limit = min(limit, programs/4)
	}
	debug.SetMemoryLimit(limit)
}

// drain lets running programs end, in time or until another signal comes. The front door
// closes last, so that clients still get their answers.
func (a *app) drain(s *service, server *httpd.Server, signals <-chan os.Signal) error {
	server.Drain()
	unused := 300 * time.Millisecond
	if s.engine.Stats().Running > 0 { // their clients have files to fetch, on a busy machine perhaps
		unused = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.Config.DrainTime)
	defer cancel()
	drained := make(chan error, 1)
	go func() {
		s.engine.RefuseRuns()
		s.interpreters.PauseAll(ctx)
		drained <- s.engine.Shutdown(ctx)
	}()
	var err error
	select {
	case err = <-drained:
		letFetch(server, unused, signals)
	case <-signals:
		cancel()
		err = <-drained
	}
	closing, stop := context.WithTimeout(context.Background(), closeTimeout)
	defer stop()
	return errors.Join(err, server.Shutdown(closing))
}

// letFetch keeps the door open while clients fetch the files of the runs that ended last: until no request has begun
// or ended for a while, or another signal comes. The while begins with the call at the earliest: a run ends before
// its request does, which may have begun long ago.
func letFetch(server *httpd.Server, unused time.Duration, signals <-chan os.Signal) {
	const most = 5 * time.Second
	for began := time.Now(); time.Since(began) < most && min(time.Since(began), server.Unused()) < unused; {
		select {
		case <-signals:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// shutDownNow ends an engine that has no clients yet.
func shutDownNow(service *engine.Service) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return service.Shutdown(ctx)
}

func listenTCP(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &command.Failure{Code: command.ExitUnavailable, Word: "address_in_use",
			Err:  fmt.Errorf("the address %s is in use by another program", address),
			Hint: "stop that program, or choose another port with --listen"}
	case errors.Is(err, syscall.EACCES):
		return nil, command.Fail(command.ExitUnavailable, "choose a port above 1023 with --listen",
			"this user may not listen on %s", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, command.Fail(command.ExitUnavailable, "choose another address with --listen",
			"%s is no address of this machine", address)
	}
	return nil, command.Fail(command.ExitUnavailable, "", "%w", err)
}

// explainExposed explains the error of a service without keys that other machines can reach.
func (a *app) explainExposed(err error) error {
	if _, open := errors.AsType[*httpd.ExposedError](err); !open {
		return err
	}
	return &command.Failure{Code: command.ExitUnavailable, Word: "no_keys",
		Err:  fmt.Errorf("there are no keys, and other machines can reach %s", a.Config.Listen),
		Hint: "make a key first with `airlock keys create`, or let a network in without one with --trust-network CIDR"}
}

// listenUnix listens on the socket in the data directory. This process holds the index, so
// that a socket that answers belongs to another program, and one that does not is left
// from a killed service.
func (a *app) listenUnix(ctx context.Context) (net.Listener, error) {
	name := a.Config.Socket()
	if a.socketAnswers(ctx) {
		return nil, command.Fail(command.ExitUnavailable, "stop it, or choose another directory with --data",
			"another program answers on %s",
			name)
	}
	if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, command.Fail(command.ExitUnavailable, "move it away", "%s is not a socket", name)
	}
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return nil, command.Fail(command.ExitUnavailable, "", "the socket of an earlier service cannot be removed: %w", err)
	}
	// Other users may not connect, not even for the moment before a chmod.
	before := syscall.Umask(0o177)
	l, err := net.Listen("unix", name)
	syscall.Umask(before)
	if errors.Is(err, syscall.EINVAL) {
		return nil, command.Fail(command.ExitUnavailable, "choose a data directory with a shorter name with --data",
			"the name %s is too long for a socket", name)
	}
	if err != nil {
		return nil, command.Fail(command.ExitUnavailable, "", "%w", err)
	}
	return l, nil
}

// greet prints that the service is ready, and how to use it.
func (a *app) greet(ctx context.Context, service *engine.Service, at net.Addr) {
	p := a.PageOn(a.Streams.Out)
	url := "http://" + reachable(at)
	p.Line("%s", p.Paint(command.Bold, "Airlock is ready."))
	p.Line("")
	p.Line("  Address    %s", url)
	p.Line("  Page       %s/ui/", url)
	p.Line("  Data       %s", a.Config.Data)
	if isolation, err := service.Isolation(ctx); err == nil {
		p.Line("  Isolation  %s (%s)", isolation.Summary, modeWords(a.Config.Isolation, isolation.Strict))
		if weak := notEnforced(isolation); weak > 0 {
			p.Line("             %s; see `airlock doctor`", p.Paint(
				command.Yellow, fmt.Sprintf("%d of %d layers are weaker or missing", weak, len(isolation.Layers))))
		}
	}
	installed, _ := setup.InspectSets(a.Config.Installed()) // doctor reports a damaged record
	packages, incomplete := packagesLine(installed)
	if incomplete {
		packages = p.Paint(command.Yellow, packages) + "; see `airlock doctor`"
	}
	p.Line("  Runtimes   %s", packages)
	if a.Config.DemoProject {
		p.Line("  Project    %s/demo (in memory, to try things out: --api)", url)
	}
	if len(a.Config.TrustNetworks) > 0 {
		p.Line("  %s no key is asked of callers from %s", p.Paint(command.Yellow, "OPEN      "),
			strings.Join(networkTexts(a.Config.TrustNetworks), ", "))
	}
	p.Line("")
	p.Line("Try, in another terminal:")
	p.Line("  %s run -f testdata/sales.csv -o out examples/plot.py", a.invocation())
	key := ""
	if service.Stats().HasKeys {
		key = `-H "x-api-key: $AIRLOCK_KEY" `
	}
	p.Line("  curl -s %s/api/v1/runs %s-H 'content-type: application/json' \\", strings.TrimPrefix(url, "http://"), key)
	p.Line("       -d '{\"language\":\"python\",\"code\":\"print(1)\"}'")
	p.Line("")
	p.Line("%s", p.Paint(command.Faint, "Ctrl-C stops it."))
}

// modeWords describes the required isolation beside the actual one.
func modeWords(mode string, strict bool) string {
	switch {
	case mode == config.IsolationStrict:
		return "strict is required"
	case strict:
		return "strict"
	}
	return "not strict; strict is not required"
}

func notEnforced(isolation engine.Isolation) int {
	n := 0
	for _, l := range isolation.Layers {
		if l.State != engine.LayerEnforced {
			n++
		}
	}
	return n
}

// reachable returns an address at which this machine reaches a listener.
func reachable(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return at.String()
}

func networkTexts(networks []netip.Prefix) []string {
	texts := make([]string, len(networks))
	for i, n := range networks {
		texts[i] = n.String()
	}
	return texts
}
