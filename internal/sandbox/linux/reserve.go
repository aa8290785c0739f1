package linux

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// The first processes of a sandbox begin with copies of all open files of the executor, and their steps
// know these by the executor's numbers. A step that places a file at a fixed number replaces what the
// executor has open there, which a later step may need: with 900 files open, the pipe for reports became
// the stdout of a program. So no file of the executor has a number at which a step places one. Files that
// steps place at the lowest numbers have been duplicated to others (firstFree) before.

// reserveNumbers opens the numbers from spawn.ReportFile to spawn.LastFile, for as long as the executor
// lives.
func reserveNumbers() error {
	for number := spawn.ReportFile; number <= spawn.LastFile; number++ {
		err := unix.Dup3(0, number, unix.O_CLOEXEC)
		if errors.Is(err, unix.EBADF) { // above the limit of open files, so no file gets this number
			continue
		}
		if err != nil {
			return fmt.Errorf("reserve a file's number: %w", err)
		}
	}
	return nil
}

// weakReserve names the reservation of numbers, and weakNumbers, with a number behind it, up to which number
// the executor has files open. Neither is a step.
const (
	weakReserve = "reserve numbers"
	weakNumbers = "open files up to "
)

// openNumbers opens files up to a number that a test has set.
func openNumbers(weak []string) error {
	for _, name := range weak {
		text, ok := strings.CutPrefix(name, weakNumbers)
		if !ok {
			continue
		}
		last, err := strconv.Atoi(text)
		for number := 0; err == nil && number < last; {
			number, err = unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
