package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/egress"
	"github.com/airlock-run/airlock/internal/engine"
)

// egressClient returns a client of the egress process, which the first grant starts:
// through root's half of the service if there is one.
func (a *app) egressClient() (*egress.Client, error) {
	launcher := egress.NewLauncher()
	if a.split {
		var err error
		if launcher, err = egress.RemoteLauncher(os.NewFile(egressSocket, "launcher")); err != nil {
			return nil, err
		}
	}
	return egress.NewClient(launcher), nil
}

// network returns what the settings allow of the network.
func (a *app) network(carrier engine.Egress) (engine.NetworkConfig, error) {
	c := a.Config
	inject, err := parseInjections(c.NetworkInject.Reveal())
	if err == nil {
		_, err = engine.ParseNetworkRules(c.NetworkAllow)
	}
	if err != nil {
		return engine.NetworkConfig{}, command.Fail(command.ExitUsage, "`airlock serve --help` shows its form", "%w", err)
	}
	if c.NetworkInspect { // secrets of programs are in this process
		if err := forbidCores(); err != nil {
			return engine.NetworkConfig{}, err
		}
	}
	found := &registries{}
	return engine.NetworkConfig{
		Allow: c.NetworkAllow, Private: c.NetworkPrivate, Inspect: c.NetworkInspect, Inject: inject,
		MaxBytes: c.NetworkMaxBytes, Egress: carrier, Registries: found.find,
	}, nil
}

// forbidCores keeps the kernel from writing or piping the memory of this process anywhere when it crashes: a limit of
// 0 bytes is none for a pipe (core(5)).
func forbidCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
}

// parseInjections parses lines of HOST HEADER: VALUE. Errors do not quote them.
func parseInjections(text string) (list []engine.Injection, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		host, rest, _ := strings.Cut(line, " ")
		header, value, ok := strings.Cut(rest, ":")
		name, err := engine.NetworkName(host)
		header, value = strings.TrimSpace(header), strings.TrimSpace(value)
		if !ok || err != nil || header == "" || value == "" || strings.ContainsAny(header, " \t") {
			return nil, fmt.Errorf("network_inject: line %d is not HOST HEADER: VALUE", number)
		}
		list = append(list, engine.Injection{Host: name, Header: header, Value: value})
	}
	return list, nil
}

// registries caches the registries that pip and npm are configured for.
type registries struct {
	mu    sync.Mutex
	until time.Time
	known engine.Registries
}

// registriesTTL is how long the cache is valid.
const registriesTTL = time.Minute

func (r *registries) find(ctx context.Context) (engine.Registries, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) {
		return r.known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	found, node := engine.Registries{Env: map[string]string{}}, engine.Registries{Env: map[string]string{}}
	var asked sync.WaitGroup
	var failed error
	asked.Go(func() { failed = npmRegistry(ctx, &node) })
	err := errors.Join(pipRegistries(ctx, &found), func() error { asked.Wait(); return failed }())
	found.Allow = append(found.Allow, node.Allow...)
	maps.Copy(found.Env, node.Env)
	if len(found.Allow) == 0 {
		return found, errors.Join(errors.New("neither pip nor npm names one"), err)
	}
	if ctx.Err() == nil { // else a tool may have timed out
		r.known, r.until = found, time.Now().Add(registriesTTL)
	}
	return found, nil
}

// pipDefaults prints pip's defaults, which pip config does not list.
const pipDefaults = `from pip._internal.models.index import PyPI
print(PyPI.simple_url, PyPI.file_storage_domain)`

// pipRegistries adds the registries of pip.
func pipRegistries(ctx context.Context, found *engine.Registries) error {
	out, err := exec.CommandContext(ctx, "python3", "-m", "pip", "config", "list").Output()
	if err != nil {
		return fmt.Errorf("pip config list: %w", err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		settings[name[strings.LastIndexByte(name, '.')+1:]] = strings.Trim(value, "'")
	}
	if settings["index-url"] == "" {
		out, err := exec.CommandContext(ctx, "python3", "-c", pipDefaults).Output()
		fields := strings.Fields(string(out))
		if err != nil || len(fields) != 2 {
			return fmt.Errorf("pip does not say which index it uses: %w", err)
		}
		settings["index-url"] = fields[0]
		found.Allow = append(found.Allow, fields[1]+":443")
	}
	for setting, name := range map[string]string{"index-url": "PIP_INDEX_URL", "extra-index-url": "PIP_EXTRA_INDEX_URL"} {
		for address := range strings.FieldsSeq(strings.ReplaceAll(settings[setting], `\n`, " ")) {
			shown, err := addRegistry(found, address)
			if err != nil {
				return err
			}
			found.Env[name] = strings.TrimSpace(found.Env[name] + " " + shown)
		}
	}
	found.Env["UV_DEFAULT_INDEX"] = found.Env["PIP_INDEX_URL"]
	if hosts := settings["trusted-host"]; hosts != "" {
		found.Env["PIP_TRUSTED_HOST"] = strings.ReplaceAll(hosts, `\n`, " ")
	}
	return nil
}

// npmRegistry adds the registry of npm.
func npmRegistry(ctx context.Context, found *engine.Registries) error {
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	if err != nil {
		return fmt.Errorf("npm config get registry: %w", err)
	}
	shown, err := addRegistry(found, strings.TrimSpace(string(out)))
	if err == nil {
		found.Env["npm_config_registry"] = shown
	}
	return err
}

// addRegistry allows a registry's host, and returns its address without the operator's
// user name and password.
func addRegistry(found *engine.Registries, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("a registry's address cannot be read")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	found.Allow = append(found.Allow, host+":"+port)
	u.User = nil
	return u.String(), nil
}

// networkReport says whether programs can get a network, and what they may ask for.
type networkReport struct {
	Possible bool     `json:"possible"` // the egress process starts
	Detail   string   `json:"detail"`
	Allow    []string `json:"allow"` // of network_allow
}

// tryNetwork starts the egress process with an empty grant.
func tryNetwork(ctx context.Context) error {
	carrier := egress.NewClient(egress.NewLauncher())
	defer carrier.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return err
	}
	defer file.Close()
	lease, err := carrier.Open(ctx, engine.Grant{Run: engine.NewID()}, file, func([]engine.Contact) {})
	if err != nil {
		return err
	}
	return lease.Close()
}

func (a *app) examineNetwork(ctx context.Context) networkReport {
	r := networkReport{Possible: true, Detail: "an egress process of its own carries what is allowed",
		Allow: append([]string{}, a.Config.NetworkAllow...)}
	if err := tryNetwork(ctx); err != nil {
		r.Possible = false
		r.Detail = "no program can be given a network, since the egress process does not start: " + err.Error()
	}
	return r
}

func (r networkReport) WriteText(p *command.Page) {
	p.Line("")
	p.Line("%s (%s)", p.Paint(command.Bold, "Network"), r.Detail)
	if !r.Possible {
		return
	}
	p.Line("  On this machine `airlock run --allow-net RULE` gives a program a network.")
	if len(r.Allow) == 0 {
		p.Line("  Callers of the service may ask for nothing: network_allow is not set.")
	} else {
		p.Line("  Callers of the service may ask for %s.", command.Printable(strings.Join(r.Allow, ", ")))
	}
	p.Line("  A key can have rules of its own: `airlock keys create --network RULE`.")
}

func (a *app) netCommand() *cobra.Command {
	run := ""
	log := &cobra.Command{
		Use:   "log",
		Short: "Lists the connections of programs with a network grant, newest first",
		Long: `Lists the connections that programs with a network grant asked for, newest first:
where to, how much, and what became of them. Those that were refused are listed
too. On the machine of the service they are those of all owners.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withService(cmd.Context(), "start it with `airlock serve`, or name one with --server URL",
				"no service is running here, and programs without one leave no log", func(c *client.Client) error {
					contacts, err := c.Contacts(cmd.Context(), run)
					if err != nil {
						return err
					}
					return a.PrintTable(map[string]any{"contacts": contacts}, "No program has asked for a connection.",
						contactRows(contacts))
				})
		},
	}
	log.Flags().StringVar(&run, "run", "", "`ID` of the run whose connections are listed")
	return command.GroupOf("net", "What programs contacted on the network", "", a.WithFlags(log, config.Client))
}

func contactRows(contacts []client.Contact) [][]string {
	rows := [][]string{{"TIME", "RUN", "OWNER", "VERDICT", "SENT", "GOT", "WHERE"}}
	for _, c := range contacts {
		rows = append(rows, []string{c.At.Local().Format(time.DateTime), c.Run, command.Printable(c.Owner), string(c.Verdict),
			humanize.IBytes(uint64(max(0, c.Sent))), humanize.IBytes(uint64(max(0,
				c.Received))), command.Printable(whereOf(&c))})
	}
	return rows
}

// whereOf returns the destination of a connection, or why there was none.
func whereOf(c *client.Contact) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s:%d", c.Host, c.Port)
	if _, err := netip.ParseAddr(c.Host); err != nil && c.Address != "" {
		fmt.Fprintf(&b, " (%s)", c.Address)
	}
	if c.Reason != "" {
		fmt.Fprintf(&b, ": %s", c.Reason)
	}
	if c.More > 0 {
		fmt.Fprintf(&b, " (and %d more)", c.More)
	}
	return b.String()
}
