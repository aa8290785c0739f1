package hostile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// looks are additional checks from outside after some programs.
var looks = map[string]func(sandboxtest.Result) []string{
	"bombs/archive.py":          wantFiles("bomb.zip"),
	"bombs/big_files.py":        wantFiles("big0", "big1"),
	"bombs/sparse.py":           wantDropped("hole3", "too large"),
	"bombs/deep_folders.py":     wantDropped("d/d/d", "too many folders deep"),
	"bombs/long_paths.py":       wantDropped("\x01", "its path is too long"),
	"files/hard_links.py":       wantFiles("name00", "name01"),
	"files/special.py":          wantFiles("unreadable"),
	"files/names.py":            wantFiles("%FF%FE not text", "%C0%AE%C0%AE", "..%FF/in it"),
	"files/links.py":            wantDropped("link0", "not a regular file"),
	"files/inputs.py":           wantFiles("elsewhere"),
	"lies/numbers.py":           wantCode(7),
	"lies/killed_inside.c":      wantSignal("SIGKILL"),
	"lies/signal_end.py":        wantSignal("SIGKILL"),
	"lies/other_architecture.c": wantSignal("SIGSYS"),
	"lies/account.c":            wantCPU(100 * time.Millisecond), // of 480: polls miss the last part
	"escape/whiteout.py":        wantNoDevice,
	"outlive/output_held.sh":    wantSoon,
	"outlive/daemons.sh":        wantSoon,
	"outlive/double_forks.py":   wantSoon,
	"outlive/shared_memory.c":   wantSoon,
	"outlive/chain.c":           wantSoon,
	"bombs/output.py":           wantFlood,
	"lies/clone_parent.c":       wantCode(7),
	"lies/executed_by_thread.c": wantCode(9),
	"lies/memory.c":             wantMemory(90 << 20),
	"files/nameless.py":         wantFiles("named"),
	"files/words_of_ours.py":    wantFiles("--help", "stdout", ".git/config", "%s%n%x"),
	"outlive/stopped_family.sh": wantSoon,
	"lies/texts.py":             wantText("\x1b]0;title\x07\x1b[2J\x00\xff\xfe\r\nevent: done\n"),
}

// looksInCell replaces these checks after a cell, whose text is UTF-8.
var looksInCell = map[string]func(sandboxtest.Result) []string{
	"lies/texts.py":  wantText("\x1b]0;title\x07\x1b[2J\x00\uFFFD\r\nevent: done\n"),
	"files/links.py": wantNoLinks, // a session keeps its links
}

func wantFiles(names ...string) func(sandboxtest.Result) []string {
	return func(r sandboxtest.Result) (faults []string) {
		for _, name := range names {
			if _, ok := r.Files[name]; !ok {
				faults = append(faults, fmt.Sprintf("the file %q was not kept", name))
			}
		}
		return faults
	}
}

func wantDropped(part, reason string) func(sandboxtest.Result) []string {
	return func(r sandboxtest.Result) []string {
		for _, d := range r.Dropped {
			if strings.Contains(d.Path, part) && d.Reason == reason {
				return nil
			}
		}
		return []string{fmt.Sprintf("nothing with %q in its path was dropped because of %q: %.500q", part, reason,
			fmt.Sprint(r.Dropped))}
	}
}

func wantNoLinks(r sandboxtest.Result) (faults []string) {
	for name := range r.Files {
		if strings.HasPrefix(name, "link") {
			faults = append(faults, fmt.Sprintf("what the link %q leads to came out", name))
		}
	}
	return faults
}

func wantNoDevice(r sandboxtest.Result) []string {
	if content, ok := r.Files["a"]; ok && content != "x" {
		return []string{fmt.Sprintf("a device came out as a file: %q", content)}
	}
	return nil
}

func wantCode(code int) func(sandboxtest.Result) []string {
	return func(r sandboxtest.Result) []string {
		if r.Code() != code {
			return []string{fmt.Sprintf("exit code %d, want %d", r.Code(), code)}
		}
		return nil
	}
}

func wantSignal(name string) func(sandboxtest.Result) []string {
	return func(r sandboxtest.Result) []string {
		if r.Signal != name || r.OOM {
			return []string{fmt.Sprintf("signal %q, out of memory %v; want %s", r.Signal, r.OOM, name)}
		}
		return nil
	}
}

func wantCPU(least time.Duration) func(sandboxtest.Result) []string {
	return func(r sandboxtest.Result) []string {
		if r.CPU < least {
			return []string{fmt.Sprintf("it is said to have computed for %v, and did for more than %v", r.CPU, least)}
		}
		return nil
	}
}

// wantMemory is for programs whose memory the kernel or the executor counts.
func wantMemory(least int64) func(sandboxtest.Result) []string {
	return func(r sandboxtest.Result) []string {
		if r.MemoryPeak < least {
			return []string{fmt.Sprintf("it is said to have had %d MiB, and had more than %d", r.MemoryPeak>>20, least>>20)}
		}
		return nil
	}
}

// wantSoon fails if the run waited for a process that was left behind.
func wantSoon(r sandboxtest.Result) []string {
	if r.Duration > 15*time.Second {
		return []string{fmt.Sprintf("it took %v to end", r.Duration)}
	}
	return nil
}

func wantFlood(r sandboxtest.Result) []string {
	if !slices.ContainsFunc(strings.Split(r.Stdout, "\n"), func(l string) bool { return strings.HasPrefix(l, "xxxx") }) {
		return []string{"there was no flood"}
	}
	return nil
}

func wantText(text string) func(sandboxtest.Result) []string {
	return func(r sandboxtest.Result) []string {
		if !strings.Contains(r.Stdout, text) {
			return []string{"its bytes did not come through as they are"}
		}
		return nil
	}
}
