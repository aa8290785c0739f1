package browser

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// cutter passes connections on to a service, and cuts them when it is told.
type cutter struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	open  []net.Conn
	count int
}

func newCutter(t *testing.T, s *service) (*cutter, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, target: strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/ui")}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { c.pass(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); c.cut(); group.Wait() })
	return c, "http://" + l.Addr().String() + "/ui"
}

func (c *cutter) pass(from net.Conn) {
	to, err := net.Dial("tcp", c.target)
	if err != nil {
		from.Close()
		return
	}
	c.mu.Lock()
	c.open = append(c.open, from, to)
	c.count++
	c.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(to, from); to.Close() })
	both.Go(func() { _, _ = io.Copy(from, to); from.Close() })
	both.Wait()
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		conn.Close()
	}
	c.open = nil
}

// TestLostConnection cuts the connection while a program prints, several
// times: the page misses nothing and shows nothing twice.
func TestLostConnection(t *testing.T) {
	s := shared(t)
	c, url := newCutter(t, s)
	b := open(t, light)
	b.goTo(url + "/")
	b.write("import time\nfor i in range(60):\n    print('line', i, flush=True)\n    time.sleep(0.1)")
	b.click("#run")
	for _, line := range []int{5, 20, 40} {
		b.wait(fmt.Sprintf(`document.querySelector('#output').innerText.includes('line %d\n')`, line))
		c.cut()
	}
	b.ended()
	var want strings.Builder
	for i := range 60 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if got := b.text("#output"); got != want.String() {
		t.Errorf("after three cuts the output is %q", got)
	}
	if eval[bool](b, `!document.querySelector('#notice').hidden`) {
		t.Errorf("it still says %q", b.text("#notice"))
	}
}

// TestStoppedService kills the service in mid-run and starts it again.
func TestStoppedService(t *testing.T) {
	s := serve(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.write("import time\nprint('begun', flush=True)\ntime.sleep(60)")
	b.click("#run")
	b.wait(`document.querySelector('#output').innerText.includes('begun')`)
	s.kill()
	b.wait(`document.querySelector('#notice').innerText.includes('connection is lost')`)
	b.examine("lost")
	s.restart()
	b.wait(`document.querySelector('#state').innerText === 'interrupted'`)
	if got := b.text("#output"); !strings.Contains(got, "begun") {
		t.Errorf("what was on the screen is gone: %q", got)
	}
	// The page is from before the service started: it says so.
	b.wait(`!document.querySelector('#run').disabled`)
	b.click("#run")
	b.wait(`document.querySelector('#notice').innerText.includes('Load the page again')`)
	b.forgive()
}

// TestSecondTab watches one run in two tabs.
func TestSecondTab(t *testing.T) {
	s := shared(t)
	first, second := open(t, light), open(t, dark)
	first.goTo(s.url + "/")
	first.write("import time\nfor i in range(20):\n    print(i, flush=True)\n    time.sleep(0.1)")
	first.click("#run")
	first.wait(`document.querySelector('#output').innerText.includes('5\n')`)
	second.goTo(eval[string](first, "location.href"))
	first.ended()
	second.ended()
	if a, b := first.text("#output"), second.text("#output"); a != b || !strings.HasSuffix(b, "19\n") {
		t.Errorf("the tabs show %q and %q", a, b)
	}
}

// TestGoneInput runs again with an input file that was deleted meanwhile.
func TestGoneInput(t *testing.T) {
	s := shared(t)
	b := open(t, light)
	b.goTo(s.url + "/")
	b.run(`const data = new DataTransfer(); data.items.add(new File(['x'], 'in.txt'));
		document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`)
	b.wait(`document.querySelector('.input input[name=file]')`)
	b.runs("print(open('in.txt').read())")
	link := eval[string](b, "location.href")
	file := eval[string](b, "document.querySelector('.input input[name=file]').value")
	b.goTo(s.url + "/files/" + file)
	b.run(`window.confirm = () => true`)
	b.click("form .danger")
	b.wait(`location.pathname === '/ui/files'`)
	b.goTo(link)
	b.wait("document.querySelector('.cm-content')")
	b.click("#run")
	b.wait(`document.querySelector('#notice').innerText.includes('input files is gone')`)
	if got := b.text("#state"); got != "not run" {
		t.Errorf("the state is %q", got)
	}
	// A name that no program may see is refused in words.
	b.run(`const data = new DataTransfer(); data.items.add(new File(['x'], 'a'.repeat(300) + '.txt'));
		document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`)
	b.wait(`document.querySelector('.input.failed')?.innerText.includes('more than 255 bytes')`)
	b.examine("refused")
	b.forgive()
}
