package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/bucket/buckettest"
	"github.com/airlock-run/airlock/internal/postgrestest"
)

// startTime is for a node to take work, stopTime for it to end.
const startTime, stopTime = time.Minute, 10 * time.Second

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

// node is a process of the cluster, which is started again on the same port.
type node struct {
	cluster           *cluster
	role, binary, url string
	data              string
	cmd               *exec.Cmd
	pid               atomic.Int64 // of its first process
	ended             chan struct{}
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
		n.end(syscall.SIGTERM)
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.Close()
	n := &node{cluster: c, role: role, binary: binary, url: "http://" + l.Addr().String(),
		data: filepath.Join(c.dir, strconv.Itoa(len(c.nodes)))}
	if err := os.Mkdir(n.data, 0o711); err != nil {
		return nil, err
	}
	if c.options.runtimes != "" {
		if err := os.Symlink(c.options.runtimes, filepath.Join(n.data, "runtimes")); err != nil {
			return nil, err
		}
	}
	if err := giveToService(n.data); err != nil {
		return nil, err
	}
	c.nodes = append(c.nodes, n)
	return n, n.launch(ctx)
}

// giveToService makes a folder the service's: as root that is the user airlock.
func giveToService(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	owner, err := user.Lookup("airlock")
	if err != nil {
		return errors.New("as root this needs the user airlock: run airlock setup")
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	return os.Chown(dir, uid, gid)
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
	if !until(ctx, startTime, func() bool { return n.ready(ctx) }) {
		text, _ := os.ReadFile(n.data + ".log")
		return fmt.Errorf("a node of the role %s does not start: %s", n.role, text)
	}
	return nil
}

// ready asks as Kubernetes does.
func (n *node) ready(ctx context.Context) bool {
	if n.role == "worker" {
		health := exec.CommandContext(ctx, n.cmd.Path, "health", "--data", n.data)
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
func (n *node) start() error {
	args := []string{"serve", "--listen", strings.TrimPrefix(n.url, "http://"), "--data", n.data, "--log-level", "warn",
		"--role", n.role, "--owner-rate", "100000"}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent",
		"AIRLOCK_CONFIG=none", "AIRLOCK_WORKER_TOKEN=" + n.cluster.token}
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
	binary, err := filepath.Abs(n.binary)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(n.data+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd, n.ended = exec.Command(binary, args...), make(chan struct{})
	n.cmd.Dir, n.cmd.Env, n.cmd.Stderr = "/", env, log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.pid.Store(int64(n.cmd.Process.Pid))
	go func() {
		defer close(n.ended)
		_ = n.cmd.Wait() // how it ended is in its log
	}()
	return nil
}

// signal reaches all processes of the node, the first one first: it would start others.
func (n *node) signal(sig syscall.Signal) {
	above, self := parents(), n.cmd.Process.Pid
	_ = syscall.Kill(self, sig)
	for pid := range above {
		for at := above[pid]; at > 1; at = above[at] {
			if at == self {
				_ = syscall.Kill(pid, sig)
			}
		}
	}
}

func (n *node) end(sig syscall.Signal) {
	select {
	case <-n.ended:
		return
	default:
	}
	if sig == syscall.SIGKILL {
		n.signal(sig)
	} else {
		_ = n.cmd.Process.Signal(sig)
	}
	select {
	case <-n.ended:
	case <-time.After(stopTime):
		n.signal(syscall.SIGKILL)
		<-n.ended
	}
}

// until asks again until the answer is yes.
func until(ctx context.Context, most time.Duration, yes func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(most)
	for !yes() {
		select {
		case <-tick.C:
		case <-end:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
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
