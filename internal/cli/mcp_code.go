package cli

import (
	"context"
	"os"

	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/upstream"
)

// codeMode has programs call the tools of other servers. Their calls end in this
// process, so the engine is in it, too.
func (d *mcpDesk) codeMode() error {
	if d.cfg.Server != "" {
		return fail(exitUsage, "leave --server out: code mode runs programs in this process",
			"--upstream and --server exclude each other")
	}
	text, err := os.ReadFile(d.options.upstream)
	if err != nil {
		return unreadable(d.options.upstream, err)
	}
	servers, err := upstream.Read(text)
	if err != nil {
		return fail(exitUsage, "", "%s: %w", d.options.upstream, err)
	}
	d.tools = upstream.New(servers, readVersion(d.release).Version, d.log)
	return nil
}

// codeTools are the tools of other servers as the protocol's edge takes them.
type codeTools struct{ *upstream.Set }

func (t codeTools) Host(ask func(context.Context, string) (bool, error)) live.Host {
	return t.Set.Host(ask)
}
