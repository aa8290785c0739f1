package linux

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// printed is a host that keeps what a program prints.
type printed struct {
	silent
	strings.Builder
}

func (p *printed) Output(_ engine.Stream, b []byte) { p.Write(b) }

// No file that is opened after reserveNumbers has one of the numbers.
func TestReserveNumbers(t *testing.T) {
	if err := reserveNumbers(); err != nil {
		t.Fatal(err)
	}
	var opened []int
	defer func() {
		for _, number := range opened {
			unix.Close(number)
		}
		for number := spawn.ReportFile; number <= spawn.LastFile; number++ {
			unix.Close(number)
		}
	}()
	for number := 0; number <= spawn.LastFile; {
		var err error
		if number, err = unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		opened = append(opened, number)
		if number >= spawn.ReportFile && number <= spawn.LastFile {
			t.Errorf("a file has number %d", number)
		}
	}
}

// The executor has so many files open that one of a new sandbox has the number at which its first process places the
// pipe for reports. A program gets a Node that waited, whose files are its own. Without the reservation the Node does
// not start, or its stdout is that pipe, and the run fails.
func TestNumbersOfOpenFiles(t *testing.T) {
	failure := func(last int, weaken ...string) string {
		s := startWeak(t, append(weaken, fmt.Sprint(weakNumbers, last))...)
		defer s.Close()
		var p printed
		if _, err := s.Run(t.Context(), sandboxtest.Spec("js", hasWaited), &p); err != nil || p.String() != "true\n" {
			return fmt.Sprint(p.String(), err)
		}
		return ""
	}
	// Which number a file has depends on what the sandboxes of this machine need.
	for below := range 60 {
		last := spawn.ReportFile - 34 - below
		if failure(last, weakReserve) == "" {
			continue
		}
		if why := failure(last); why != "" {
			t.Errorf("with files open up to %d: %s", last, why)
		}
		return
	}
	t.Error("without the reservation nothing fails, so this test shows nothing")
}
