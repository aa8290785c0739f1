package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/setup"
)

func (a *Assistant) provider() *cobra.Command {
	cmd := command.GroupOf("provider", "Lists, fetches and deletes files and sessions at a provider of models",
		"Lists, fetches and deletes files and sessions at a provider of models. Your own files, as\n"+
			"runs and notebooks make them, are those of `airlock files`.")
	add := func(use, short string, args cobra.PositionalArgs,
		run func(ctx context.Context, args []string) error) *cobra.Command {
		sub := a.WithFlags(&cobra.Command{Use: use, Short: short, Args: args,
			RunE: func(cmd *cobra.Command, args []string) error {
				if dir, err := a.stateDir(); err == nil && dir != a.Config.Data && cmd.Name() != "stats" {
					a.Say("note: root's own commands and what they left at providers are listed in %s, "+
						"since others can write to %s", dir, a.Config.Data)
				}
				err := run(cmd.Context(), args)
				if cmd.Context().Err() != nil {
					return &command.Failure{Code: command.ExitFailed, Word: "interrupted", Err: errors.New("interrupted")}
				}
				return modelError(err)
			}}, config.Models)
		cmd.AddCommand(sub)
		return sub
	}
	limit, within := 0, ""
	list := add("ls", "Lists remote files and sessions, and marks those that Airlock made", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			if within != "" {
				return a.listSession(ctx, within, limit)
			}
			return a.listRemote(ctx, limit)
		})
	list.Flags().IntVar(&limit, "limit", 1000, "`N` files and as many sessions at most")
	list.Flags().StringVar(&within, "session", "", "the files of the session `ID`")
	add("put FILE...", "Uploads files, which stay until they are removed", cobra.MinimumNArgs(1), a.putRemote)
	get := fetchOptions{SaveFlags: command.SaveFlags{Folder: "."}}
	fetch := add("get [ID]", "Fetches a remote file, or all that code has made in a session", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			switch {
			case len(args) == 1:
				return a.getRemote(ctx, args[0], get)
			case get.session != "":
				return a.getSession(ctx, get)
			}
			return command.Fail(command.ExitUsage,
				"`airlock provider ls` lists them; --session ID alone fetches all that code has made in a session",
				"no file is named")
		})
	fetch.Flags().StringVar(&get.session, "session", "",
		"`ID` of the session that it is in; without a file: all that code has made there")
	get.Add(fetch.Flags(), "`DIR` to save it into", "save under another name where one exists")
	save := get
	saving := add("save CONVERSATION", "Saves the files that a conversation has made and that are still held here",
		cobra.ExactArgs(1), func(ctx context.Context, args []string) error { return a.saveHeld(ctx, args[0], save) })
	save.Add(saving.Flags(), "`DIR` to save them into", "save under other names where files of these names exist")
	session := false
	remove := add("rm ID...", "Deletes remote files or sessions", cobra.MinimumNArgs(1),
		func(ctx context.Context, args []string) error { return a.removeRemote(ctx, args, session) })
	remove.Flags().BoolVar(&session, "session", false, "the ids are of sessions")
	add("gc", "Deletes what commands that were interrupted have left at providers", cobra.NoArgs, a.collectGarbage)
	add("stats", "Counts turns, files, downloads and failures by provider and model", cobra.NoArgs, a.remoteStats)
	return cmd
}

// account is an account at a provider, and the host whose ledger lists Airlock's objects there.
type account struct {
	*modelHost
	name     string
	provider provider.Provider // with retries
	bare     provider.Provider // without
}

// withAccount connects the chosen provider.
func (a *Assistant) withAccount(ctx context.Context, do func(*account) error) error {
	name, err := a.chosenProvider()
	if err != nil {
		return err
	}
	return a.withHost(ctx, func(h *modelHost) error {
		b, err := a.connectModel(ctx, owner, conversation.Settings{Provider: name})
		if err != nil {
			return err
		}
		err = do(&account{h, name, provider.Retried(b.Provider, h.Retry, h.Counters), b.Provider})
		if b.Close != nil {
			err = errors.Join(err, b.Close())
		}
		return err
	})
}

// ours returns the ledger's entries of the account, by kind and id.
func (c *account) ours(ctx context.Context) (map[string]provider.Entry, error) {
	entries, err := c.Ledger.Entries(ctx)
	known := map[string]provider.Entry{}
	for _, e := range entries {
		if e.Provider == c.name && e.Account == c.bare.Account() && e.ID != "" {
			known[string(e.Kind)+" "+e.ID] = e
		}
	}
	return known, err
}

func (a *Assistant) listRemote(ctx context.Context, limit int) error {
	return a.withAccount(ctx, func(c *account) error {
		known, err := c.ours(ctx)
		if err != nil {
			return err
		}
		r := remoteReport{Provider: c.name, Files: []remoteFile{}, Sessions: []remoteSession{}}
		for f, err := range c.provider.Files().List(ctx, provider.Filter{}) {
			if err != nil {
				return err
			}
			if r.More = len(r.Files) >= limit; r.More {
				break
			}
			e, ours := known["file "+f.Ref.ID]
			f.SHA256 = "" // few providers have it
			r.Files = append(r.Files, remoteFileOf(f, ours, e.Keep))
		}
		for s, err := range c.provider.Sessions().List(ctx, provider.Filter{}) {
			if err != nil {
				return err
			}
			if len(r.Sessions) >= limit {
				r.More = true
				break
			}
			e, ours := known["session "+s.ID]
			r.Sessions = append(r.Sessions, remoteSession{ID: s.ID, Name: s.Name, Created: s.Created, Expires: s.Expires,
				Active: s.Active, Ours: ours, Kept: e.Keep})
		}
		return a.Print(r)
	})
}

// putRemote uploads files. The ledger records them as kept, so that no clean-up deletes them.
func (a *Assistant) putRemote(ctx context.Context, names []string) error {
	inputs, err := openInputs(names, "", false, nil)
	if err != nil {
		return err
	}
	return a.withAccount(ctx, func(c *account) (err error) {
		ledger, err := provider.OpenLedger(ctx, c.Ledger, "", c.Retry)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ledger.Close()) }()
		if err := ledger.KeepAll(ctx); err != nil {
			return err
		}
		shown := a.showTurns(false)
		u := provider.Uploader{Provider: provider.Retried(ledger.Recorded(c.bare), c.Retry, c.Counters), Counters: c.Counters,
			Progress: func(s provider.Source, sent int64) {
				if !a.JSON {
					shown.Show("sending", s.Name, sent, s.Size)
				}
			}}
		r := putReport{Provider: c.name, Files: []remoteFile{}}
		var failed error
		for _, f := range inputs {
			staged, refused := u.Stage(ctx, []provider.Source{f.Source})
			for _, no := range refused {
				failed = errors.Join(failed, fmt.Errorf("%s was not sent: %w", f.Path, no.Err))
			}
			for _, s := range staged {
				s.File.Size, s.File.SHA256 = f.Size, s.SHA256
				r.Files = append(r.Files, remoteFileOf(s.File, true, true))
			}
		}
		shown.clear()
		return a.Finish(&r, modelError(failed))
	})
}

func (a *Assistant) removeRemote(ctx context.Context, ids []string, session bool) error {
	return a.withAccount(ctx, func(c *account) error {
		known, err := c.ours(ctx)
		if err != nil {
			return err
		}
		r := removeReport{Provider: c.name, Deleted: []string{}}
		var failed error
		for _, id := range ids {
			kind := provider.EntryFile
			if _, ours := known["session "+id]; ours || session {
				kind = provider.EntrySession
			}
			if kind == provider.EntrySession {
				err = c.provider.Sessions().Delete(ctx, id)
			} else {
				err = c.provider.Files().Delete(ctx, provider.FileRef{Provider: c.name, Scope: provider.ScopeFile, ID: id})
			}
			if e, ours := known[string(kind)+" "+id]; err == nil && ours {
				err = c.Ledger.Remove(ctx, e.Key)
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", id, err))
				continue
			}
			r.Deleted = append(r.Deleted, id)
		}
		return a.Finish(&r, modelError(failed))
	})
}

// collectGarbage deletes what is left in the account of the chosen provider, or in all
// accounts that have a key.
func (a *Assistant) collectGarbage(ctx context.Context, _ []string) error {
	return a.withHost(ctx, func(h *modelHost) error {
		providers, done, err := a.sweepable(ctx)
		if err != nil {
			return err
		}
		defer done()
		swept, err := h.SweepAll(ctx, providers...)
		r := gcReport{Deleted: entriesOf(swept.Deleted), Kept: entriesOf(swept.Kept), Left: []gcLeft{},
			Others: othersOf(swept.Others)}
		for _, l := range swept.Left {
			r.Left = append(r.Left, gcLeft{entryOf(l.Entry), conversation.ProblemOf(l.Err)})
			err = errors.Join(err, fmt.Errorf("%v, at %s, could not be deleted: %w", l.Entry, providerTitles[l.Entry.Provider],
				l.Err))
		}
		return a.Finish(&r, modelError(err))
	})
}

// sweepable returns the accounts of a clean-up.
func (a *Assistant) sweepable(ctx context.Context) (list []provider.Provider, done func(), err error) {
	if a.Config.Provider == provider.Local {
		b, err := a.connectLocal(ctx, a.Config.ModelURL)
		if err != nil {
			return nil, nil, err
		}
		return []provider.Provider{b.Provider}, func() { _ = b.Close() }, nil
	}
	list, err = a.accountsOf(ctx, a.Config.Provider)
	if err == nil && len(list) == 0 {
		err = command.Fail(command.ExitUsage, "set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or XAI_API_KEY",
			"there is no key of any provider")
	}
	return list, func() {}, err
}

func (a *Assistant) remoteStats(ctx context.Context, _ []string) error {
	own, err := a.stateDir()
	if err != nil {
		return err
	}
	_, missing := os.Stat(filepath.Join(own, state.Name)) // before root becomes another user
	return a.withStateFor(ctx, "", func(d *localState) error {
		switch dir, err := a.stateDir(); {
		case err != nil:
			return err
		case dir != a.Config.Data:
			a.Say("note: these are the counts of root's own commands, in %s: there is no user %s that could read %s", dir,
				setup.User, a.Config.Data)
		case own != dir && missing == nil:
			a.Say("note: root's own commands are counted apart: `airlock provider stats --data %s`", command.QuoteForShell(own))
		}
		rows, err := d.db.Uploads().Counts(ctx)
		if err != nil {
			return err
		}
		r := statsReport{Rows: []provider.Counts{}}
		for _, row := range rows {
			if a.Config.Provider == "" || row.Provider == a.Config.Provider {
				r.Rows = append(r.Rows, row)
			}
		}
		entries, err := d.db.Ledger().Entries(ctx)
		for _, e := range entries {
			if a.Config.Provider != "" && e.Provider != a.Config.Provider {
				continue
			}
			if r.Remote++; e.Keep {
				r.Kept++
			}
		}
		a.Out.Result(r)
		return err
	})
}
