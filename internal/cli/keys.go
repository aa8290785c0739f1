package cli

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect/e2b"
	"github.com/airlock-run/airlock/internal/engine"
)

func (a *app) keys() *cobra.Command {
	return groupOf("keys", "Makes, lists and revokes the keys that let callers in",
		`Makes, lists and revokes the keys that let callers in.

They are kept in the data directory. Where a service holds it, the service is
asked; --server URL asks one elsewhere, with a key that has admin rights.`,
		a.keysCreate(), a.keysList(), a.keysRevoke())
}

func (a *app) keysCreate() *cobra.Command {
	wanted := client.NewKey{Owner: string(engine.Local)}
	forE2B := false
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Makes a key and prints its token, this once",
		Long: `Makes a key and prints its token on standard output, this once: only a hash of
it is kept. Files and runs belong to the key's owner; keys of one owner share
them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			args := []string{"create", "--owner", wanted.Owner, "--packages", wanted.Packages}
			for _, rule := range wanted.Network {
				args = append(args, "--network", rule)
			}
			if wanted.Admin {
				args = append(args, "--admin")
			}
			if forE2B {
				args = append(args, "--e2b")
			}
			return a.withKeys(cmd.Context(), args, func(ctx context.Context, c *client.Client) error {
				made, err := c.CreateKey(ctx, wanted)
				if err != nil {
					return err
				}
				if forE2B {
					made.Token = e2b.Key(made.Token)
				}
				_ = a.printLine(made, "%s", made.Token) // the token alone, for pipes
				rights := ""
				if made.Admin {
					rights = ", with admin rights"
				}
				if !a.json {
					a.say("Key %s for %s%s. The line above is its token; it is not shown again.", made.ID, made.Owner, rights)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&wanted.Owner, "owner", wanted.Owner, "`NAME` of whom the key's files and runs belong to")
	cmd.Flags().StringSliceVar(&wanted.Network, "network", nil, "`RULES` of what its programs may contact, as "+
		"api.example.com or *.example.com:443, and do unless a request says otherwise; else network_allow")
	cmd.Flags().BoolVar(&wanted.Admin, "admin", false, "let its holder manage keys")
	cmd.Flags().StringVar(&wanted.Packages, "packages", "", "`SET` of Python packages of its programs: current, onyx, librechat or own; else their protocol's")
	cmd.Flags().BoolVar(&forE2B, "e2b", false, "spell the token as E2B's SDKs demand it; it opens what is below /e2b")
	return a.withFlags(cmd, config.Client)
}

func (a *app) keysList() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use:   "list",
		Short: "Lists the keys, revoked ones too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withKeys(cmd.Context(), []string{"list"}, func(ctx context.Context, c *client.Client) error {
				keys, err := c.ListKeys(ctx)
				if err != nil {
					return err
				}
				return a.printTable(map[string]any{"keys": append([]client.Key{}, keys...)},
					"There are no keys: callers on this machine need none. `airlock keys create` makes one.", keyRows(keys))
			})
		},
	}, config.Client)
}

func (a *app) keysRevoke() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use:   "revoke ID",
		Short: "Ends a key at once; its owner's files stay",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			again := []string{"revoke", "--", args[0]}
			return a.withKeys(cmd.Context(), again, func(ctx context.Context, c *client.Client) error {
				if err := c.RevokeKey(ctx, args[0]); err != nil {
					return err
				}
				return a.printLine(map[string]string{"revoked": args[0]}, "Key %s lets nobody in any more.", args[0])
			})
		},
	}, config.Client)
}

// operator may do everything: a user who can open the storage already can.
var operator = engine.Caller{Owner: engine.Local, Admin: true}

// withKeys does something with the keys: through the service that holds them, else
// through an engine on storage that no service holds. As root that storage is opened
// by the service's user, which stays the owner of every file: this command is run
// again as that user, with args.
func (a *app) withKeys(ctx context.Context, args []string, do func(context.Context, *client.Client) error) error {
	if a.cfg.Server != "" || a.socketAnswers(ctx) {
		conn, err := a.connect(ctx)
		if err != nil {
			return err
		}
		defer conn.close()
		return do(ctx, conn.client)
	}
	if os.Geteuid() == 0 {
		return a.asServiceUser(nil, nil, append([]string{"keys"}, args...)...)
	}
	kept, err := a.openStorage(ctx, a.cfg.Data, nil)
	return using(kept, err, func(kept *storage) error {
		// Keys need no sandbox, and the engine is not opened: it runs nothing.
		c, end, err := a.inProcess(engine.New(engine.Config{}, nil, kept.blobs, kept.index, a.log), operator)
		if err != nil {
			return err
		}
		defer end()
		return do(ctx, c)
	})
}

func keyRows(keys []client.Key) [][]string {
	rows := [][]string{{"ID", "OWNER", "ADMIN", "MADE", "REVOKED", "PACKAGES"}}
	for _, key := range keys {
		admin, revoked := "no", "-"
		if key.Admin {
			admin = "yes"
		}
		if !key.RevokedAt.IsZero() {
			revoked = key.RevokedAt.Local().Format(time.DateOnly)
		}
		rows = append(rows, []string{key.ID, printable(key.Owner), admin, key.CreatedAt.Local().Format(time.DateOnly),
			revoked, cmp.Or(printable(key.Packages), "-")})
	}
	return rows
}
