// Package postgrestest starts PostgreSQL servers of a test's own, from Debian's
// package or any other on PATH.
package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed: scripts/test-deps does it")

// startTime is for a server to answer; busy machines take long.
const startTime = 2 * time.Minute

// Server is a server on loopback. It keeps its data in memory as far as the machine
// does, and loses it when it ends.
type Server struct {
	Address string // host:port
	dir     string
	user    *syscall.Credential // nil: the user of this process
	process *exec.Cmd
}

// Start starts a server. The caller calls Stop.
func Start(ctx context.Context) (*Server, error) {
	dir, err := os.MkdirTemp("", "postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	var err error
	if s.user, err = unprivileged(s.dir); err != nil {
		return err
	}
	initdb, err := s.command(ctx, "initdb", "-A", "trust", "-U", "postgres", "--no-sync", "-D", s.data())
	if err != nil {
		return err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	s.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return s.Resume(ctx)
}

// command returns one that runs as the user of the data.
func (s *Server) command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	path, err := program(name)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user, Setpgid: true}
	return cmd, err
}

// Resume starts the server, at first and after Pause, and waits until it answers.
func (s *Server) Resume(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	if s.process, err = s.command(ctx, "postgres", "-D", s.data(), "-h", host, "-p", port, "-k", "",
		"-c", "fsync=off", "-c", "max_connections=200", "-c", "logging_collector=on"); err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, errors.New("the server is not ready"))
		}
	}
}

// Pause ends the server and keeps its data.
func (s *Server) Pause() error { return s.end(syscall.SIGINT) } // without waiting for clients

// Crash kills the server, which sends its standby nothing more. Its data stays.
func (s *Server) Crash() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(sig syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	err := s.process.Process.Signal(sig)
	_ = s.process.Wait() // it says how it was ended
	s.process = nil
	return err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL returns the address of a database.
func (s *Server) URL(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Host: s.Address, Path: "/" + database,
		RawQuery: "sslmode=disable"}).String()
}

// URLWith returns the address of one of this server's databases, with another server to turn to.
func (s *Server) URLWith(other *Server, address string) string {
	return strings.Replace(address, s.Address, s.Address+","+other.Address, 1)
}

// Standby starts a server that follows this one. The caller calls Stop.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	dir, err := os.MkdirTemp("", "postgres-")
	if err != nil {
		return nil, err
	}
	follower := &Server{dir: dir}
	if err := follower.follow(ctx, s); err != nil {
		return nil, errors.Join(err, follower.Stop())
	}
	return follower, nil
}

func (s *Server) follow(ctx context.Context, primary *Server) (err error) {
	if s.user, err = unprivileged(s.dir); err != nil {
		return err
	}
	copied, err := s.command(ctx, "pg_basebackup", "--write-recovery-conf", "--no-sync", "--checkpoint=fast", "--pgdata",
		s.data(), "--dbname", primary.URL("postgres"))
	if err != nil {
		return err
	}
	if out, err := copied.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	s.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return s.Resume(ctx)
}

// Synchronous makes the server wait for its standby at each commit.
func (s *Server) Synchronous(ctx context.Context) error {
	return s.statements(ctx, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
}

// Promote promotes a standby to primary.
func (s *Server) Promote(ctx context.Context) error { return s.statements(ctx, "SELECT pg_promote()") }

func (s *Server) statements(ctx context.Context, list ...string) error {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	for _, text := range list {
		if _, err = c.Exec(ctx, text); err != nil {
			break
		}
	}
	return errors.Join(err, c.Close(ctx))
}

// NewDatabase makes an empty database and returns its address.
func (s *Server) NewDatabase(ctx context.Context) (string, error) {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return "", err
	}
	name := "t" + strings.ToLower(rand.Text())
	_, err = c.Exec(ctx, "CREATE DATABASE "+name+" STRATEGY file_copy")
	return s.URL(name), errors.Join(err, c.Close(ctx))
}

// Stop ends the server and removes what it kept.
func (s *Server) Stop() error { return errors.Join(s.Pause(), os.RemoveAll(s.dir)) }

// program finds a program of PostgreSQL, which Debian keeps out of PATH.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return "", fmt.Errorf("%w (no %s)", ErrMissing, name)
	}
	slices.Sort(found)
	return found[len(found)-1], nil
}

// unprivileged gives dir to the user of Debian's package, if this is root: the server
// refuses to run as root.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("%w (no user postgres)", ErrMissing)
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
