package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/airlock-run/airlock/internal/bucket"
	"github.com/airlock-run/airlock/internal/cluster"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/mutual"
	"github.com/airlock-run/airlock/internal/remote"
	"github.com/airlock-run/airlock/internal/setup"
)

// several reports whether other services may use the same database: if the bytes of
// files are in a bucket, which all of them have.
func (a *app) several() bool { return a.cfg.Database != "" && a.cfg.Blobs != "" }

// join makes a service that listens at an address a node of those that share its
// database; nil if it shares none.
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
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	address := a.advertised(at)
	_, port, _ := net.SplitHostPort(at.String())
	node := engine.Node{Name: host + ":" + port, Role: engine.NodeRole(a.cfg.Role),
		Address: "http://" + address + peerLinkPath, Version: readVersion(a.release).Version, Slots: a.cfg.Concurrency,
		Memory: programMemory(), Languages: languageNames()}
	if node.Slots == 0 {
		node.Slots = 2 * runtime.NumCPU()
	}
	installed, _ := setup.InspectSets(a.cfg.Installed()) // a damaged record counts as none; doctor tells
	for _, set := range installed {
		node.Packages = append(node.Packages, cmp.Or(set.Set, "current"))
	}
	member, err := cluster.Join(ctx, cluster.Config{Index: kept.index, Node: node, Log: a.log, Load: s.load})
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
	s.peers = &httpd.Peers{Cluster: member, Secret: []byte(secret), Now: kept.clock, Link: link, Nodes: member.Nodes}
	s.peerTLS = config
	return member, nil
}

// oneMachine says why what is kept in the data directory of one machine is not to be had:
// with several nodes the next request may come to one that knows nothing of it, and an
// api's directory may go with it at any time.
func (a *app) oneMachine(s *service) func() (why string) {
	return func() string {
		if s.member == nil || a.cfg.Role == config.RoleAll && s.member.Alone() {
			return ""
		}
		return "Folders, their undo, and conversations with providers are kept on one machine, and several nodes may share " +
			"this service's database. Use `airlock apply` and `airlock ask` where the folder is, or a service with --role all " +
			"that is alone on its database."
	}
}

// peerLinkPath is where nodes take links from each other. It is in their addresses: nodes
// of versions before take none.
const peerLinkPath = "/node/v1/link"

// linkMounts take links of workers, and of other nodes that know the cluster's secret: what
// these pass on is served as everything else is.
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
	s.below = append(s.below, links.Close)
	return append(mounts, httpd.Mount{Prefix: peerLinkPath, Handler: links, Public: true, AnyHost: true})
}

// load is what this node has to do.
func (s *service) load() engine.Load {
	if s.engine == nil {
		return engine.Load{}
	}
	stats := s.engine.Stats()
	load := engine.Load{Running: stats.Running, Queued: stats.Queued}
	if s.interpreters != nil {
		load.Held = s.interpreters.Counts().Interpreters
	}
	return load
}

// nodes are all that share the database, with the workers; without one the workers.
func (s *service) nodes() (list []engine.Node) {
	switch {
	case s.member != nil:
		return s.member.Nodes()
	case s.workers != nil:
		for _, n := range s.workers.registry.Workers() {
			list = append(list, engine.Node{Name: n.Name, Role: engine.RoleWorker, Address: n.Address, Version: n.Version,
				Slots: n.Slots, Load: engine.Load{Running: n.Slots - n.Free, Held: n.Held}, Draining: n.Draining, Since: n.Since})
		}
	}
	return list
}

// agreeOnBlobs refuses a bucket other than the one that the database's files are in.
func (a *app) agreeOnBlobs(ctx context.Context, kept *storage) error {
	address, err := bucket.ParseAddress(a.cfg.Blobs)
	if err != nil {
		return err
	}
	mine := address.Bucket + "/" + strings.Trim(address.Prefix, "/")
	agreed, err := kept.index.Agree(ctx, "blobs", mine)
	if err == nil && agreed != mine {
		err = fail(exitUnavailable, "give each deployment a database of its own, or name the same bucket and prefix",
			"the files of this database are in the bucket %s, and this service was given %s", agreed, mine)
	}
	return err
}

// advertised is where peers reach this service. One that listens on every address is
// reached at that which it has on the way to the database.
func (a *app) advertised(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	port := strconv.Itoa(tcp.Port)
	if settings, err := pgconn.ParseConfig(a.cfg.Database.Reveal()); err == nil {
		// Nothing is sent: it only asks which way leads there.
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
