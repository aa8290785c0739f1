package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Each command, executor and egress process initializes all packages first, so what they compute then is felt at the
// terminal. What they allocate, unlike the time, is the same on every machine.
func TestStartAllocatesLittle(t *testing.T) {
	const most = 1300 << 10
	cmd := exec.Command(binary, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	allocated, packages := 0, 0
	for line := range strings.Lines(trace.String()) {
		// init PACKAGE @0.5 ms, 0.02 ms clock, 1024 bytes, 3 allocs
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.HasPrefix(fields[1], "github.com/airlock-run/airlock/") {
			continue
		}
		bytes, err := strconv.Atoi(fields[7])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		allocated += bytes
		packages++
		if bytes > 100<<10 {
			t.Logf("%7d bytes %s", bytes, fields[1])
		}
	}
	if packages == 0 {
		t.Fatalf("no package of Airlock in the trace:\n%s", trace.Bytes())
	}
	if allocated > most {
		t.Errorf("the packages of Airlock allocate %d bytes at each start, more than %d: compile regular expressions and "+
			"make tables at their first use, with sync.OnceValue", allocated, most)
	}
}
