package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/bucket"
	"github.com/airlock-run/airlock/internal/cluster"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/mutual"
	"github.com/airlock-run/airlock/internal/remote"
	"github.com/airlock-run/airlock/internal/setup"
)

// several reports whether other services may share the database: only if the bytes of
// files are in a bucket, too.
func (a *app) several() bool { return a.Config.Database != "" && a.Config.Blobs != "" }

// join makes a service that listens at an address a member of the cluster that shares
// its database. It returns nil without a cluster.
func (a *app) join(ctx context.Context, s *service, kept *storage, at net.Addr) (*cluster.Member, error) {
	if !a.several() || at == nil {
		return nil, nil
	}
	if err := a.agreeOnBlobs(ctx, kept); err != nil {
		return nil, err
	}
	secret, err := kept.index.Agree(ctx, "secret", rand.Text()+rand.Text())
	if err != nil {
		return nil, err
	}
	name, err := a.nodeName(at)
	if err != nil {
		return nil, err
	}
	address := a.advertised(at)
	node := engine.Node{Name: name, Role: engine.NodeRole(a.Config.Role),
		Address: "http://" + address + peerLinkPath, Version: readVersion(a.release).Version, Slots: a.Config.Concurrency,
		Memory: programMemory(), Languages: languageNames()}
	if node.Slots == 0 {
		node.Slots = 2 * engine.Processors()
	}
	installed, _ := setup.InspectSets(a.Config.Installed()) // doctor reports a damaged record
	for _, set := range installed {
		node.Packages = append(node.Packages, cmp.Or(set.Set, "current"))
	}
	epochs := filepath.Join(a.Config.Data, "node")
	former, _ := os.ReadFile(epochs) // the first time there is none
	member, err := cluster.Join(ctx, cluster.Config{Index: kept.index, Node: node,
		Approval: a.Config.ApproveWorkers, Log: a.Log, Load: s.load,
		Former: engine.EpochOf(string(former)), Registered: func(epoch engine.Epoch) error {
			return os.WriteFile(epochs, []byte(epoch.Prefix()), 0o600)
		}})
	if err != nil {
		return nil, err
	}
	s.below = append(s.below, func() error { return member.Leave(context.WithoutCancel(ctx)) })
	s.member, s.drain = member, kept.index.DrainNode
	config, err := mutual.Config(secret)
	if err != nil {
		return nil, err
	}
	link := mutual.Transport(config, peerLinkPath)
	link.DisableCompression, link.MaxIdleConnsPerHost = true, 64
	s.peers = &httpd.Peers{Cluster: member, Secret: []byte(secret), Now: kept.clock, Nodes: member.Nodes,
		Link: a.telemetry.Transport(link)}
	s.peerTLS = config
	return member, nil
}

// nodeName returns the name of this service in its cluster.
func (a *app) nodeName(at net.Addr) (string, error) {
	if a.Config.NodeName != "" {
		return a.Config.NodeName, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(at.String())
	return host + ":" + port, nil
}

// oneMachine returns why the state in the data directory of one machine is not available:
// with several nodes the next request may reach another one, and an api's directory may
// be deleted at any time.
func (a *app) oneMachine(s *service) func() (why string) {
	return func() string {
		if s.member == nil || a.Config.Role == config.RoleAll && s.member.Alone() {
			return ""
		}
		return "Folders, their undo, and conversations with providers are kept on one machine, and several nodes may share " +
			"this service's database. Use `airlock apply` and `airlock ask` where the folder is, or a service with --role all " +
			"that is alone on its database."
	}
}

// peerLinkPath is the path of links between nodes. It is a part of their addresses, since
// nodes of earlier versions have no links.
const peerLinkPath = "/node/v1/link"

// linkMounts returns the mounts for links of workers, and of other nodes that know the
// cluster's secret. serve handles the requests that nodes forward.
func (s *service) linkMounts(serve func() http.Handler) (mounts []httpd.Mount) {
	if s.workers != nil {
		mounts = append(mounts, httpd.Mount{Prefix: remote.LinkPath, Handler: s.workers.links, Public: true, AnyHost: true})
	}
	if s.peers == nil {
		return mounts
	}
	links := mutual.NewLinks(s.peerTLS, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve().ServeHTTP(w, r)
	}))
	links.Verified = httpd.Authenticated
	s.below = append(s.below, links.Close)
	return append(mounts, httpd.Mount{Prefix: peerLinkPath, Handler: links, Public: true, AnyHost: true})
}

// load returns the load of this node.
func (s *service) load() engine.Load {
	if s.engine == nil {
		return engine.Load{}
	}
	stats := s.engine.Stats()
	load := engine.Load{Running: stats.Running, Queued: stats.Queued, DiskFree: stats.Disk.Free}
	_, load.MemoryFree = machineMemory()
	if s.interpreters != nil {
		load.Held = s.interpreters.Counts().Interpreters
	}
	return load
}

// nodes returns the nodes of the cluster with their workers, or the workers of a single api.
func (s *service) nodes() (list []engine.Node) {
	switch {
	case s.member != nil:
		return s.member.Nodes()
	case s.workers != nil:
		for _, n := range s.workers.registry.Workers() {
			list = append(list, engine.Node{Name: n.Name, Role: engine.RoleWorker, Address: n.Address, Version: n.Version,
				Slots: n.Slots, Draining: n.Draining, Since: n.Since, Load: engine.Load{Running: n.Slots - n.Free, Held: n.Held,
					DiskFree: n.DiskFree, MemoryFree: n.MemoryFree}})
		}
	}
	return list
}

// agreeOnBlobs refuses a bucket other than that of the database's files.
func (a *app) agreeOnBlobs(ctx context.Context, kept *storage) error {
	address, err := bucket.ParseAddress(a.Config.Blobs)
	if err != nil {
		return err
	}
	mine := address.Bucket + "/" + strings.Trim(address.Prefix, "/")
	agreed, err := kept.index.Agree(ctx, "blobs", mine)
	if err == nil && agreed != mine {
		err = command.Fail(command.ExitUnavailable,
			"give each deployment a database of its own, or name the same bucket and prefix",
			"the files of this database are in the bucket %s, and this service was given %s", agreed, mine)
	}
	return err
}

// advertised returns the address at which peers reach this service. If it listens on
// every address, that is its address on the route to the database.
func (a *app) advertised(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	port := strconv.Itoa(tcp.Port)
	if settings, err := pgconn.ParseConfig(a.Config.Database.Reveal()); err == nil {
		// This sends nothing. It only looks the route up.
		way, err := net.Dial("udp", net.JoinHostPort(settings.Host, fmt.Sprint(settings.Port)))
		if err == nil {
			defer way.Close()
			if udp, ok := way.LocalAddr().(*net.UDPAddr); ok {
				return net.JoinHostPort(udp.IP.String(), port)
			}
		}
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// Reap implements cluster.Service.
func (s *service) Reap(ctx context.Context) error { return s.engine.Reap(ctx) }

// Refresh implements cluster.Service.
func (s *service) Refresh(ctx context.Context) error { return s.engine.Refresh(ctx) }

// CutOff implements cluster.Service.
func (s *service) CutOff(former engine.Epoch) {
	s.engine.CutOff(former)
	s.interpreters.CutOff()
}

func (a *app) nodes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Lists the nodes that share a database, with what they have to do",
		Long: `Lists the nodes that share a database, with what they have to do. It asks the
database that the setting names, and works while any of them are away.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withNodes(cmd.Context(), func(ctx context.Context, db *index.DB) error {
				found, err := db.Nodes(ctx)
				if err != nil {
					return err
				}
				nodes, rows := []client.Node{}, [][]string{{"NAME", "ROLE", "STATE", "RUNS", "QUEUED", "HELD", "VERSION"}}
				for i := range found {
					n := native.NodeOf(&found[i])
					nodes = append(nodes, n)
					rows = append(rows, []string{command.PrintableName(n.Name), string(n.Role), string(n.State),
						fmt.Sprintf("%d of %d", n.Running, n.Slots), strconv.Itoa(n.Queued), strconv.Itoa(n.Held),
						command.Printable(n.Version)})
				}
				waiting, err := waitingWorkers(ctx, db, found)
				if err != nil {
					return err
				}
				for _, n := range waiting {
					nodes = append(nodes, n)
					rows = append(rows, []string{command.PrintableName(n.Name), string(n.Role), string(n.State), "-", "-", "-", "-"})
				}
				return a.PrintTable(map[string]any{"nodes": nodes}, "No node uses this database.", rows)
			})
		},
	}
	undo := false
	drain := &cobra.Command{
		Use:   "drain NAME",
		Short: "Makes a node accept nothing new and finish what it runs",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withNodes(cmd.Context(), func(ctx context.Context, db *index.DB) error {
				err := db.DrainNode(ctx, args[0], !undo)
				action := engine.ActDrain
				if undo {
					action = engine.ActUndrain
				}
				if err := recordAct(ctx, db, action, args[0], "", err); err != nil {
					return err
				}
				if engine.KindOf(err) == engine.ErrNotFound {
					return command.Fail(command.ExitFailed, "`airlock nodes` lists them", "no node that is alive is called %s", command.PrintableName(args[0]))
				}
				if err != nil {
					return err
				}
				state := "%s accepts nothing new and finishes what it runs; `airlock nodes` shows what that is."
				if undo {
					state = "%s takes new work again."
				}
				return a.PrintLine(map[string]any{"name": args[0], "drain": !undo}, state, command.PrintableName(args[0]))
			})
		},
	}
	drain.Flags().BoolVar(&undo, "undo", false, "have it take new work again")
	cmd.AddCommand(a.WithFlags(drain), a.nodesRevoke(), a.nodesApprove())
	return a.WithFlags(cmd)
}

// recordAct records what an operator did with the database for the audit log.
func recordAct(ctx context.Context, db *index.DB, action, object, detail string, err error) error {
	entry := engine.AuditEntry{At: db.Now(), Owner: engine.Local, From: engine.FromDatabase, Action: action,
		Object: object, Detail: detail, Outcome: engine.OutcomeDone}
	if err != nil {
		entry.Outcome = engine.OutcomeFailed
	}
	return db.AddAudit(ctx, entry)
}

// withNodes calls do with the database that the nodes share.
func (a *app) withNodes(ctx context.Context, do func(context.Context, *index.DB) error) (err error) {
	if a.Config.Database == "" {
		return command.Fail(command.ExitUsage, "set AIRLOCK_DATABASE as the nodes have it",
			"no database is set, so this machine is the only node")
	}
	db, err := index.OpenPostgres(ctx, a.Config.Database.Reveal(), "", a.Log, index.WithReplicas())
	if err != nil {
		return &command.Failure{Code: command.ExitUnavailable, Word: "database", Err: err,
			Hint: "`airlock doctor` says what is amiss with AIRLOCK_DATABASE"}
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return do(ctx, db)
}
