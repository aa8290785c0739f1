package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/internal/bucket/buckettest"
	"github.com/airlock-run/airlock/internal/postgrestest"
)

// cluster is a database, a bucket and the nodes on them.
type cluster struct {
	options          *options
	out              io.Writer
	dir              string
	postgres         *postgrestest.Server
	standby          *postgrestest.Server // nil: there is none
	s3               *buckettest.Server
	database, bucket string
	token            string
	nodes            []*node
}

// node is a service of the cluster, which is started again on the same port.
type node struct {
	*lab.Service
	cluster            *cluster
	role, binary, data string
	address, url       string
	pid                atomic.Int64 // of its first process, for those who look while it is started again
}

func (c *cluster) start(ctx context.Context) {
	c.token, c.dir = rand.Text()+rand.Text(), lab.Must(os.MkdirTemp("", "airlock-cluster-"))
	lab.Check(os.Chmod(c.dir, 0o711))
	c.postgres, c.s3 = lab.Must(postgrestest.Start(ctx)), lab.Must(buckettest.Start(ctx))
	c.database, c.bucket = lab.Must(c.postgres.NewDatabase(ctx)), lab.Must(c.s3.NewBucket(ctx))
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		if n.Service != nil {
			_ = n.Stop() // it is not needed any more
		}
	}
	if c.postgres != nil {
		_ = c.postgres.Stop()
	}
	if c.standby != nil {
		_ = c.standby.Stop()
	}
	if c.s3 != nil {
		_ = c.s3.Stop()
	}
	os.RemoveAll(c.dir)
}

// four starts two apis and two workers.
func (c *cluster) four(ctx context.Context, binary string) {
	for _, role := range []string{"api", "api", "worker", "worker"} {
		c.node(ctx, role, binary)
	}
}

// node starts one more. A worker knows the apis that there are.
func (c *cluster) node(ctx context.Context, role, binary string) {
	address := lab.Must(lab.FreeAddress())
	n := &node{cluster: c, role: role, binary: binary, address: address, url: "http://" + address,
		data: lab.Must(lab.NewData(c.dir, c.options.runtimes))}
	c.nodes = append(c.nodes, n)
	n.launch(ctx)
}

func (c *cluster) of(role string) (list []*node) {
	for _, n := range c.nodes {
		if n.role == role {
			list = append(list, n)
		}
	}
	return list
}

// launch starts the process, and waits until it takes work.
func (n *node) launch(ctx context.Context) {
	n.start()
	n.await(ctx)
}

func (n *node) await(ctx context.Context) {
	if !lab.Until(ctx, lab.StartTime, func() bool { return n.ready(ctx) }) {
		lab.Fail("a node of the role %s does not start: %s", n.role, n.Log)
	}
}

// ready asks as Kubernetes does.
func (n *node) ready(ctx context.Context) bool {
	if n.role == "worker" {
		health := exec.CommandContext(ctx, n.Cmd.Path, "health", "--data", n.data)
		health.Env = []string{"HOME=/nonexistent", "AIRLOCK_CONFIG=none"}
		return health.Run() == nil
	}
	a, err := n.call(ctx, "GET", "/ready", nil)
	return err == nil && a.status == http.StatusOK
}

// start starts the process.
func (n *node) start() {
	args := []string{"--role", n.role, "--owner-rate", "100000"}
	env := []string{"AIRLOCK_WORKER_TOKEN=" + n.cluster.token}
	if n.role == "worker" {
		var apis []string
		for _, api := range n.cluster.of("api") {
			apis = append(apis, api.url)
		}
		args = append(args, "--drain-time", "5s", "--api", strings.Join(apis, ","))
	} else {
		env = append(env, "AIRLOCK_DATABASE="+n.cluster.database, "AIRLOCK_BLOBS="+n.cluster.bucket,
			"AWS_ACCESS_KEY_ID="+buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY="+buckettest.SecretKey)
	}
	n.Service = lab.Must(lab.Serve(n.binary, n.data, n.address, env, args...))
	n.pid.Store(int64(n.Cmd.Process.Pid))
}

// answer is what is looked at of any answer.
type answer struct {
	status int
	again  bool // it says when to ask again
	ID     string
	Status string
	Stdout string
	Files  []struct{ ID string }
	Text   string `json:"-"`
}

var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

func (n *node) call(ctx context.Context, method, path string, body any) (a answer, err error) {
	r, err := lab.NewRequest(ctx, method, n.url+"/api/v1"+path, body)
	if err != nil {
		return a, err
	}
	got, err := lab.Send(client, r, nil)
	if err != nil {
		return a, err
	}
	_ = json.Unmarshal(got.Body, &a) // the content of a file is none
	a.status, a.Text, a.again = got.Status, string(got.Body), got.Header.Get("Retry-After") != ""
	return a, nil
}
