package provider_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider"
)

var write = flag.Bool("write", false, "write the tables of docs/providers.md")

const guide = "../../docs/providers.md"

// TestGuide keeps the tables of the guide as the code has them.
func TestGuide(t *testing.T) {
	data, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, table := range map[string]string{"capabilities": capabilities(t), "errors": errorClasses()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(text, begin)
		was, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for %s", guide, name)
		}
		if *write {
			text = before + begin + table + end + after
			continue
		}
		if diff := cmp.Diff(table, was); diff != "" {
			t.Errorf("%s of %s are not the code's (go test ./provider -run TestGuide -write):\n%s", name, guide, diff)
		}
	}
	if *write {
		if err := os.WriteFile(guide, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func capabilities(t *testing.T) string {
	all := benches()
	var caps []provider.Capabilities
	head, line := "| |", "|---|"
	for _, b := range all {
		head += " " + b.name + " |"
		line += "---|"
		caps = append(caps, b.make(t).Provider.Caps())
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s\n%s\n", head, line)
	row := func(name string, of func(provider.Capabilities) string) {
		fmt.Fprintf(&s, "| %s |", name)
		for _, c := range caps {
			fmt.Fprintf(&s, " %s |", of(c))
		}
		s.WriteString("\n")
	}
	yes := func(name string, of func(provider.Capabilities) bool) {
		row(name, func(c provider.Capabilities) string { return yesNo(of(c)) })
	}
	row("files that code made come back", func(c provider.Capabilities) string { return string(c.Outputs) })
	row("one file up, at most", func(c provider.Capabilities) string { return bytesOf(c.Limits.Upload) })
	row("within the request, if it cannot be uploaded", func(c provider.Capabilities) string {
		if !c.InlineUpload {
			return "no"
		}
		return bytesOf(c.Limits.Inline)
	})
	row("a file's name, at most", func(c provider.Capabilities) string {
		if c.Limits.NameLength == 0 {
			return "not known"
		}
		return fmt.Sprintf("%d characters", c.Limits.NameLength)
	})
	row("lifetime that an upload can be given", func(c provider.Capabilities) string {
		if !c.UploadTTL {
			return "no"
		}
		return timeOf(c.TTLMin) + " to " + timeOf(c.TTLMax)
	})
	row("lifetime without", func(c provider.Capabilities) string {
		if c.FileTTL == 0 {
			return "until deleted"
		}
		return timeOf(c.FileTTL)
	})
	yes("an upload can be fetched again", func(c provider.Capabilities) bool { return c.UploadReadable })
	yes("state is kept between turns", func(c provider.Capabilities) bool { return c.Sessions })
	row("a session ends without use after", func(c provider.Capabilities) string {
		switch {
		case !c.Sessions:
			return "-"
		case c.IdleTTL == 0:
			return "not known"
		}
		return timeOf(c.IdleTTL)
	})
	yes("a session can be listed", func(c provider.Capabilities) bool { return c.SessionFiles })
	yes("a session can be deleted", func(c provider.Capabilities) bool { return c.SessionDelete })
	yes("asking after it keeps it alive", func(c provider.Capabilities) bool { return c.SessionTouch })
	row("tools", func(c provider.Capabilities) string {
		var names []string
		for _, tool := range c.Tools {
			names = append(names, string(tool))
		}
		return strings.Join(names, ", ")
	})
	yes("exit codes", func(c provider.Capabilities) bool { return c.ExitCode })
	yes("stdout and stderr apart", func(c provider.Capabilities) bool { return c.SplitStderr })
	yes("shows images and PDFs to the model", func(c provider.Capabilities) bool { return c.See })
	yes("calls functions of the application", func(c provider.Capabilities) bool { return c.Functions })
	yes("answers by a JSON schema", func(c provider.Capabilities) bool { return c.Schema })
	return s.String()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func errorClasses() string {
	var s strings.Builder
	s.WriteString("| class | tried again by itself | what to do |\n|---|---|---|\n")
	for _, k := range provider.Kinds() {
		again := yesNo(k.Retryable())
		if k == provider.ContainerExpired {
			again = "once, in a new session"
		}
		fmt.Fprintf(&s, "| `%s` | %s | %s |\n", string(k), again, k.Hint())
	}
	return s.String()
}

func bytesOf(n int64) string {
	switch {
	case n == 0:
		return "not known"
	case n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

func timeOf(d time.Duration) string {
	switch {
	case d > 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}
