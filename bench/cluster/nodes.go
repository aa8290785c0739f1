package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
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

func start(ctx context.Context, o *options) (c *cluster, err error) {
	c = &cluster{options: o, token: rand.Text() + rand.Text()}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if c.dir, err = os.MkdirTemp("", "airlock-cluster-"); err != nil {
		return c, err
	}
	if err = os.Chmod(c.dir, 0o711); err != nil {
		return c, err
	}
	if c.postgres, err = postgrestest.Start(ctx); err != nil {
		return c, err
	}
	if c.s3, err = buckettest.Start(ctx); err != nil {
		return c, err
	}
	if c.database, err = c.postgres.NewDatabase(ctx); err != nil {
		return c, err
	}
	c.bucket, err = c.s3.NewBucket(ctx)
	return c, err
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

// follow starts a synchronous standby of the database, to which the nodes turn.
func (c *cluster) follow(ctx context.Context) (err error) {
	if c.standby, err = c.postgres.Standby(ctx); err != nil {
		return err
	}
	c.database = c.postgres.URLWith(c.standby, c.database)
	return c.postgres.Synchronous(ctx)
}

// four starts two apis and two workers.
func (c *cluster) four(ctx context.Context, binary string) error {
	for _, role := range []string{"api", "api", "worker", "worker"} {
		if _, err := c.node(ctx, role, binary); err != nil {
			return err
		}
	}
	return nil
}

// node starts one more. A worker knows the apis that there are.
func (c *cluster) node(ctx context.Context, role, binary string) (*node, error) {
	address, err := lab.FreeAddress()
	if err != nil {
		return nil, err
	}
	n := &node{cluster: c, role: role, binary: binary, address: address, url: "http://" + address}
	if n.data, err = lab.NewData(c.dir, c.options.runtimes); err != nil {
		return nil, err
	}
	c.nodes = append(c.nodes, n)
	return n, n.launch(ctx)
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
func (n *node) launch(ctx context.Context) error {
	if err := n.start(); err != nil {
		return err
	}
	if !lab.Until(ctx, lab.StartTime, func() bool { return n.ready(ctx) }) {
		return fmt.Errorf("a node of the role %s does not start: %s", n.role, n.Log)
	}
	return nil
}

// ready asks as Kubernetes does.
func (n *node) ready(ctx context.Context) bool {
	if n.role == "worker" {
		health := exec.CommandContext(ctx, n.Cmd.Path, "health", "--data", n.data)
		health.Env = []string{"HOME=/nonexistent", "AIRLOCK_CONFIG=none"}
		return health.Run() == nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/api/v1/ready", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(r)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// start starts the process.
func (n *node) start() (err error) {
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
	if n.Service, err = lab.Serve(n.binary, n.data, n.address, env, args...); err == nil {
		n.pid.Store(int64(n.Cmd.Process.Pid))
	}
	return err
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
	text, err := json.Marshal(body)
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(ctx, method, n.url+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	_ = json.Unmarshal(raw, &a) // the content of a file is none
	a.status, a.Text, a.again = resp.StatusCode, string(raw), resp.Header.Get("Retry-After") != ""
	return a, nil
}
