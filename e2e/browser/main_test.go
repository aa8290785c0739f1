package browser

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// picture makes TestPicture write the picture that the README shows.
var picture = flag.Bool("picture", false, "write docs/run-page.png")

// shots makes all tests take pictures of what they see: they take longer than the tests.
var shots = flag.Bool("shots", false, "write pictures of the pages into out/")

// numbers makes TestPageNumbers measure, and name the file in which the table of them is.
var numbers = flag.String("numbers", "", "measure what the page promises, and write the table into this file")

var (
	binary   string          // the airlock that all tests run, built once
	chromium context.Context // of the one browser; nil: there is none here
	missing  string          // why there is none
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() == 0 && os.Getenv(ownNetwork) == "" {
		os.Exit(inOwnNetwork())
	}
	os.Exit(buildAndRun(m))
}

// ownNetwork is set in the process of which the network is its own.
const ownNetwork = "AIRLOCK_TEST_OWN_NETWORK"

// inOwnNetwork runs the tests in a network namespace of their own. Chromium breaks off all that it loads when an
// interface of its machine appears or goes, as tests of other packages have it do.
func inOwnNetwork() int {
	runtime.LockOSThread() // whose end would be that of the other process
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), ownNetwork+"=1")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := again.Run(); err != nil && again.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "starting the tests in their own network:", err)
		return 1
	}
	return again.ProcessState.ExitCode()
}

func buildAndRun(m *testing.M) int {
	if os.Getenv(ownNetwork) != "" {
		// WebRTC sends nothing from a machine that has loopback alone.
		for _, args := range []string{"link set lo up", "link add page0 type veth peer name page1", "link set page0 up",
			"link set page1 up", "address add 10.213.8.1/24 dev page0"} {
			if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "ip %s: %v %s", args, err, out)
				return 1
			}
		}
	}
	// A server that never answers fails its test, not all tests by their time limit.
	http.DefaultTransport.(*http.Transport).ResponseHeaderTimeout = 5 * time.Minute
	dir, err := os.MkdirTemp("", "airlock-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "airlock")
	build := exec.Command("go", "build", "-o", binary, "github.com/airlock-run/airlock/cmd/airlock")
	if made := os.Getenv("AIRLOCK_TEST_BINARY"); made != "" { // where others can reach it
		build = exec.Command("cp", made, binary)
	}
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building airlock:", err)
		return 1
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the service's own user executes it too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The headless shell has no windows of its own to draw, which the chromium package has.
	program, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		missing = "there is no Chromium: apt-get install chromium-headless-shell (scripts/test-deps does)"
		return m.Run()
	}
	// Debian's Chromium draws with OpenGL, which is emulated where there is no graphics card.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.DisableGPU,
		// Without a screen it knows no mouse, which pages show more to.
		chromedp.Flag("blink-settings", "primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"),
		chromedp.Flag("enable-precise-memory-info", true), chromedp.Flag("js-flags", "--expose-gc"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own does not work as root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, leave := chromedp.NewContext(allocator)
	defer leave()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "starting chromium:", err)
		return 1
	}
	chromium = ctx
	code := m.Run()
	if common != nil {
		common.stop()
		os.RemoveAll(common.data)
	}
	return code
}

// skip ends a test that lacks something, and says what.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("AIRLOCK_NO_SKIP") == "1" {
		t.Fatalf("AIRLOCK_NO_SKIP=1, but "+format, args...)
	}
	t.Skipf(format, args...)
}
