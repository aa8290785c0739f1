package dialecttest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Script is a sandboxtest.Program whose code says, line by line, what the
// program does:
//
//	print TEXT       a line on stdout          err TEXT      a line on stderr
//	hex DIGITS       bytes on stdout           repeat N TEXT the text N times on stdout
//	cat PATH         an input, to stdout       inputs        the paths of all of them
//	stdin            its stdin, to stdout      spec          how it was asked to run
//	write PATH TEXT  leaves a file             delete PATH   removes an input
//	keep PATH        leaves an input as it was drop PATH REASON [+MORE]
//	exit CODE        ends                      signal NAME   dies of it
//	timeout, oom     dies of it                wait          runs until it is killed
//	fault            the sandbox fails         broken        the service does
//	absent           the language is not on this host
func Script(ctx context.Context, spec *engine.Spec, host engine.Host) (_ *engine.Outcome, err error) {
	s := &script{spec: spec, host: host, outcome: sandboxtest.Exit(0)}
	defer func() {
		if err != nil {
			for _, o := range s.outcome.Outputs {
				o.File.Close()
			}
		}
	}()
	for line := range strings.Lines(spec.Code) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if word == "wait" {
			return sandboxtest.UntilKilled(ctx), nil
		}
		done, err := s.step(word, rest)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	return s.outcome, nil
}

type script struct {
	spec    *engine.Spec
	host    engine.Host
	outcome *engine.Outcome
}

func (s *script) print(stream engine.Stream, text string) { s.host.Output(stream, []byte(text)) }

func (s *script) step(word, rest string) (done bool, err error) {
	first, second, _ := strings.Cut(rest, " ")
	switch word {
	case "print":
		s.print(engine.Stdout, rest+"\n")
	case "err":
		s.print(engine.Stderr, rest+"\n")
	case "hex":
		text, err := hex.DecodeString(rest)
		s.print(engine.Stdout, string(text))
		return false, err
	case "repeat":
		n, err := strconv.Atoi(first)
		s.print(engine.Stdout, strings.Repeat(second, n))
		return false, err
	case "stdin":
		s.print(engine.Stdout, string(s.spec.Stdin))
	case "inputs":
		for _, in := range s.spec.Inputs {
			s.print(engine.Stdout, in.Path+"\n")
		}
	case "spec":
		l := s.spec.Limits
		s.print(engine.Stdout, fmt.Sprintf("root=%s entry=%s home=%s echo=%t inline=%t timeout=%v memory=%d cpu=%v\n",
			s.spec.Root, s.spec.Entry, s.spec.Home, s.spec.EchoLast, s.spec.Inline, l.Timeout, l.Memory, l.CPUTime))
	default:
		return s.change(word, first, second)
	}
	return false, nil
}

// change carries out a step that changes the outcome.
func (s *script) change(word, first, second string) (done bool, err error) {
	o := s.outcome
	switch word {
	case "cat", "keep":
		for _, in := range s.spec.Inputs {
			if in.Path != first {
				continue
			}
			text, err := io.ReadAll(io.NewSectionReader(in.File, 0, in.Size))
			if word == "cat" {
				s.print(engine.Stdout, string(text))
				return false, err
			}
			return false, s.leave(first, string(text), true)
		}
		return false, os.ErrNotExist
	case "write":
		input := false
		for _, in := range s.spec.Inputs {
			input = input || in.Path == first
		}
		return false, s.leave(first, second, input)
	case "delete":
		o.Deleted = append(o.Deleted, first)
	case "drop":
		d := engine.DroppedFile{Path: first, Reason: second}
		if reason, more, ok := strings.Cut(second, " +"); ok {
			n, err := strconv.Atoi(more)
			if err != nil {
				return false, err
			}
			d.Reason, d.More = reason, n
		}
		o.Dropped = append(o.Dropped, d)
	default:
		return s.end(word, first)
	}
	return false, nil
}

var signals = map[string]int{"SIGABRT": 6, "SIGKILL": 9, "SIGSEGV": 11, "SIGXCPU": 24}

func (s *script) end(word, first string) (done bool, err error) {
	o := s.outcome
	o.Duration = 7 * time.Millisecond
	switch word {
	case "exit":
		code, err := strconv.Atoi(first)
		o.ExitCode = &code
		return true, err
	case "signal":
		code := 128 + signals[first]
		o.ExitCode, o.Signal = &code, first
	case "timeout":
		o.ExitCode, o.TimedOut, o.Signal = nil, true, "SIGKILL"
	case "oom":
		o.ExitCode, o.OOM, o.Signal = nil, true, "SIGKILL"
	case "fault":
		return true, engine.ErrUnavailable
	case "broken":
		return true, errors.New("something that no client should read")
	case "absent":
		return true, &engine.Error{Op: "run", Kind: engine.ErrNoLanguage, Err: errors.New("it is not installed"),
			Hint: "Install it."}
	default:
		return true, fmt.Errorf("the script says %q, which means nothing", word)
	}
	return true, nil
}

func (s *script) leave(path, content string, input bool) error {
	f, err := sandboxtest.File(path, content)
	f.Input = input
	s.outcome.Outputs = append(s.outcome.Outputs, f)
	return err
}
