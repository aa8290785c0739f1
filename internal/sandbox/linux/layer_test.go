package linux

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A live session writes wherever a script would on a machine of its own, its interpreter and
// what is started beside it alike, however its root came to be. Others see nothing of it, nor
// does a later interpreter.
func TestRootOfSessions(t *testing.T) {
	t.Run("cold", func(t *testing.T) { tryRoot(t, start(t), "js") })
	if os.Geteuid() != 0 {
		return
	}
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	cold, warm := startWith(t, executor.LaunchOptions{Runtimes: runtimes}), startWarmWith(t, runtimes)
	t.Run("warm", func(t *testing.T) { tryRoot(t, warm, "python") })
	t.Run("cold in an image", func(t *testing.T) { tryRoot(t, sandboxtest.InImage(cold, record), "python") })
	t.Run("in an image", func(t *testing.T) { tryRoot(t, sandboxtest.InImage(warm, record), "python") })
}

func tryRoot(t *testing.T, s engine.Sandbox, language string) {
	c := newCells(t, s)
	session, other := c.session(t, language, 60), c.session(t, language, 60)
	c.cell(t.Context(), t, other, "1", time.Minute)
	const write = `set -e; umask 022
mkdir /data /app /opt/x; echo one > /data/x; echo 127.0.0.1 me >> /etc/hosts; touch /new /home/user/new /var/lib-x
mkdir -p /usr/local/bin; cp "$(type -P echo)" /usr/local/bin/mine; mine two; echo other > /etc/hostname
cat /etc/hostname
rm /etc/host.conf; ln -s /data /srv-x; chmod 700 /opt/x; mkdir -p /root-x/a/b; mv /root-x /root-y; ls /root-y
if [ "$(id -u)" = 0 ]; then echo root; fi; while read -r a b; do [ "$b" != me ] || echo $a; done < /etc/hosts; echo done`
	if got := c.shell(t, session, write); got != "two\nother\na\n127.0.0.1\ndone\n" {
		t.Errorf("a command beside it: %q", got)
	}
	code := map[string]string{"python": "!mine && cat /data/x && touch /opt/cell",
		"js": "const fs = require('fs'); console.log(fs.readFileSync('/data/x', 'utf8')); fs.mkdirSync('/opt/cell')"}
	cell := c.cell(t.Context(), t, session, code[language], time.Minute)
	if got := said(cell, live.Stdout); cell.Status != live.StatusOK || strings.TrimSpace(got) != "one" {
		t.Errorf("its interpreter: %s %q %q", cell.Status, got, said(cell, live.Stderr))
	}
	const look = "ls -d /data /app /new /opt/* /usr/local/bin/mine 2>/dev/null; cat /etc/hostname"
	if got := c.shell(t, other, look); got != "/opt/airlock\nairlock\n" {
		t.Errorf("another session sees %q", got)
	}
	once := sandboxtest.Run(t, s, sandboxtest.Spec("bash", look+"; mkdir /data; touch /etc/x /opt/x"))
	if once.Stdout != "/opt/airlock\nairlock\n" || strings.Count(once.Stderr, "Read-only file system") != 3 {
		t.Errorf("a program that is no session: %s%s", once.Stdout, once.Stderr)
	}
	tryKept(t, c, session)
	if err := c.live.Restart(t.Context(), c.caller, session); err != nil {
		t.Fatal(err)
	}
	if got := c.shell(t, session, look+"; ls"); got != "/opt/airlock\nairlock\nnew\n" {
		t.Errorf("after a restart there are %q", got)
	}
}

// tryKept attacks what is Airlock's own in the root of a session, and what all share.
func tryKept(t *testing.T, c *cells, session engine.ID) {
	t.Helper()
	const attack = `for f in /opt/airlock /dev /proc /mnt /home /workspace; do
	touch $f/x 2>/dev/null && rm $f/x && echo "writes to $f"; done
python3 -c "
import os
for f in ['/opt', '/mnt', '/home', '/etc'] + [line.split()[4] for line in open('/proc/self/mountinfo')]:
    for do in lambda: os.rename(f, '/moved'), lambda: os.rmdir(f), lambda: os.unlink(f):
        try: do(); print('moves or removes', f)
        except OSError: pass"
test -e /opt/airlock/init || echo no init
cp "$(command -v id)" /opt/id; chmod 6755 /opt/id; /opt/id -u
mknod /opt/null c 1 3 2>/dev/null && echo a device
chown 0 /opt/id 2>/dev/null && echo a file of root`
	got := c.shell(t, session, attack)
	want := "writes to /mnt\nwrites to /home\nwrites to /workspace\n" + c.shell(t, session, "id -u")
	if got != want {
		t.Errorf("it could do\n%swant\n%s", got, want)
	}
	// What lies in the way of a later process has no more rights than that one.
	c.shell(t, session, "rm /etc/passwd /etc/ld.so.cache; echo /opt/evil.so > /etc/ld.so.preload")
	again := c.shell(t, session, "while read -r line; do echo $line; done < /proc/self/status")
	for _, want := range []string{"CapPrm: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2"} {
		if !strings.Contains(again, "\n"+want+"\n") {
			t.Errorf("a process afterwards is without %q:\n%s", want, again)
		}
	}
}

// What keeps a session from Airlock's own files and from what others use: each probe writes
// exactly if its protection is left out.
func TestRootProtections(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: only there can one layer be left out and the others stay")
	}
	for weaken, probe := range map[string]string{
		"keep /opt/airlock": "touch /opt/airlock/x && echo breach",
		"keep /dev":         "mv /dev/fd /dev/x && echo breach",
	} {
		for _, weak := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", weaken, weak), func(t *testing.T) {
				var leave []string
				if weak {
					leave = []string{weaken}
				}
				c := newCells(t, start(t, leave...))
				if got := c.shell(t, c.session(t, "js", 60), probe); strings.Contains(got, "breach") != weak {
					t.Errorf("it said %q", got)
				}
			})
		}
	}
}

// What a session writes to its root counts as files of its workspace: a full one is its own harm.
func TestFullRoot(t *testing.T) {
	c := newCells(t, start(t))
	open := func(limits engine.Limits) engine.ID {
		limits.Processes = 60
		made, err := c.live.Create(t.Context(), c.caller, live.Request{Language: "js", Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	other := open(engine.Limits{})
	for name, fill := range map[string]string{
		"bytes":  "head -c 9M /dev/zero > /opt/x",
		"inodes": "cd /opt && for n in $(seq 600); do : > $n || break; done",
	} {
		t.Run(name, func(t *testing.T) {
			session := open(engine.Limits{Workspace: 8 << 20, Inodes: 500})
			p, err := c.live.StartProcess(t.Context(), c.caller, session, live.ProcessRequest{Shell: "exec 2>&1; " + fill +
				"; mkdir /usr/local/a /usr/local/b /usr/local/c; (echo x; head -c 99999 /dev/zero) > /home/user/y"})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := c.ended(t, p); strings.Count(got, "No space left on device") < 2 {
				t.Errorf("it could write on: %q", got)
			}
			if got := c.shell(t, other, "head -c 9M /dev/zero > /opt/x && stat -c %s /opt/x"); got != "9437184\n" {
				t.Errorf("another session: %q", got)
			}
			if got := c.shell(t, session, "rm -r /opt/* /home/user/y 2>/dev/null; mkdir /opt/z && echo ok"); got != "ok\n" {
				t.Errorf("when it has made room: %q", got)
			}
		})
	}
}

// A session has as many files as its limit says, with a layer or without. One that has them all still gets a root
// to write to with its next interpreter.
func TestFullWorkspace(t *testing.T) {
	c := newCells(t, start(t))
	made, err := c.live.Create(t.Context(), c.caller, live.Request{Language: "js",
		Limits: engine.Limits{Workspace: 8 << 20, Inodes: 500, Processes: 60}})
	if err != nil {
		t.Fatal(err)
	}
	const fill = "n=0; while : > f$n; do n=$((n+1)); done 2>/dev/null; ls | wc -l; mkdir /opt/a 2>&1 | grep -o 'No space'"
	for range 3 {
		if got := c.shell(t, made.ID, fill); got != "499\nNo space\n" { // the workspace itself counts
			t.Errorf("it has %q", got)
		}
		if err := c.live.Restart(t.Context(), c.caller, made.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.shell(t, made.ID, "rm f1* && mkdir /opt/a && echo ok"); got != "ok\n" {
		t.Errorf("when it has made room: %q", got)
	}
}

// TestRootWithoutRoot runs these tests as an ordinary user.
func TestRootWithoutRoot(t *testing.T) {
	withoutRoot(t, "^(TestRootOfSessions|TestFullRoot|TestFullWorkspace)$")
}

// Links, modes and empty folders of a session come back with its files, in each of its copies
// too, and no link is followed when they do.
func TestTreeComesBack(t *testing.T) {
	c := newCells(t, start(t))
	session := c.session(t, "js", 60)
	const list = `find . -printf '%M %p %l\n' | sort; cat run.sh d/secret`
	const first = `mkdir -p empty/deep .git/refs d; ln -s /etc/hostname out; ln -s ../../../.. up; ln -s run.sh link
ln -s gone d/broken; ln -s . d/self; echo 'echo hi' > run.sh; chmod 755 run.sh; echo x > d/secret; chmod 600 d/secret
chmod 700 d; mkdir closed; chmod 555 closed; `
	for _, change := range []string{
		first, "rm link; mkdir link; chmod 644 run.sh; rmdir empty/deep; ln -s d/secret empty/s; ", "",
		"chmod 700 closed; rm -r *; echo y > run.sh; mkdir d; echo z > d/secret; ",
	} {
		want := c.shell(t, session, change+list)
		if err := c.live.Pause(t.Context(), c.caller, session, live.WithoutMemory); err != nil {
			t.Fatal(err)
		}
		if got := c.shell(t, session, list); got != want {
			t.Errorf("after a pause there are\n%swant\n%s", got, want)
		}
		files, _, err := c.engine.SessionFiles(t.Context(), c.caller, session)
		if err != nil || len(files) != 2 {
			t.Errorf("the session has the files %v %v", files, err)
		}
	}
}
