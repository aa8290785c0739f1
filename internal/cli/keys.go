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
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Makes, lists and revokes the keys that let callers in",
		Long: `Makes, lists and revokes the keys that let callers in.

They are kept in the data directory. Where a service holds it, the service is
asked; --server URL asks one elsewhere, with a key that has admin rights.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.keysCreate(), a.keysList(), a.keysRevoke())
	return cmd
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
			return a.withKeys(cmd.Context(), args, func(ctx context.Context, ring keyRing) error {
				made, err := ring.CreateKey(ctx, wanted)
				if err != nil {
					return err
				}
				if forE2B {
					made.Token = e2b.Key(made.Token)
				}
				a.out.result(keyMade{made})
				if !a.json {
					a.say("Key %s for %s%s. The line above is its token; it is not shown again.", made.ID, made.Owner,
						adminWord(made.Admin))
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
	return a.keyCommand(cmd)
}

func (a *app) keysList() *cobra.Command {
	return a.keyCommand(&cobra.Command{
		Use:   "list",
		Short: "Lists the keys, revoked ones too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withKeys(cmd.Context(), []string{"list"}, func(ctx context.Context, ring keyRing) error {
				keys, err := ring.ListKeys(ctx)
				if err != nil {
					return err
				}
				a.out.result(keyList{append([]client.Key{}, keys...)})
				return nil
			})
		},
	})
}

func (a *app) keysRevoke() *cobra.Command {
	return a.keyCommand(&cobra.Command{
		Use:   "revoke ID",
		Short: "Ends a key at once; its owner's files stay",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withKeys(cmd.Context(), []string{"revoke", "--", args[0]}, func(ctx context.Context, ring keyRing) error {
				if err := ring.RevokeKey(ctx, args[0]); err != nil {
					return err
				}
				a.out.result(keyRevoked{args[0]})
				return nil
			})
		},
	})
}

func (a *app) keyCommand(cmd *cobra.Command) *cobra.Command {
	addOptions(cmd.Flags(), config.Client)
	a.addJSON(cmd)
	return cmd
}

// keyRing is where keys are kept: behind a service, which a *client.Client
// speaks for, or in storage that nobody holds.
type keyRing interface {
	CreateKey(ctx context.Context, wanted client.NewKey) (*client.Key, error)
	ListKeys(ctx context.Context) ([]client.Key, error)
	RevokeKey(ctx context.Context, id string) error
}

// withKeys finds the keys and does something with them. As root, storage that
// nobody holds is opened by the service's user, so that it stays the owner of
// every file: this command is run again as that user, with args.
func (a *app) withKeys(ctx context.Context, args []string, do func(context.Context, keyRing) error) error {
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
		return do(ctx, localKeys{engine.New(engine.Config{}, nil, kept.blobs, kept.index, a.log)})
	})
}

// localKeys are the keys in storage that this process holds.
type localKeys struct{ service *engine.Service }

// operator may do everything: whoever can open the storage already can.
var operator = engine.Caller{Owner: engine.Local, Admin: true}

// CreateKey makes a key.
func (k localKeys) CreateKey(ctx context.Context, wanted client.NewKey) (*client.Key, error) {
	key, token, err := k.service.CreateKey(ctx, operator, engine.NewKey{
		Owner: engine.Owner(wanted.Owner), Admin: wanted.Admin,
		Packages: wanted.Packages, Network: wanted.Network,
	})
	if err != nil {
		return nil, err
	}
	made := describeKey(key)
	made.Token = token
	return &made, nil
}

// ListKeys returns every key, revoked ones too.
func (k localKeys) ListKeys(ctx context.Context) ([]client.Key, error) {
	found, err := k.service.ListKeys(ctx, operator)
	var keys []client.Key
	for _, key := range found {
		keys = append(keys, describeKey(key))
	}
	return keys, err
}

// RevokeKey ends a key.
func (k localKeys) RevokeKey(ctx context.Context, id string) error {
	return k.service.RevokeKey(ctx, operator, id)
}

func describeKey(key engine.Key) client.Key {
	return client.Key{ID: key.ID, Owner: string(key.Owner), Admin: key.Admin, CreatedAt: key.CreatedAt,
		RevokedAt: key.RevokedAt, Packages: key.Packages, Network: key.Rules()}
}

func adminWord(admin bool) string {
	if admin {
		return ", with admin rights"
	}
	return ""
}

// keyMade is what keys create prints: the token alone for a person, so that
// it can be piped to where it is needed.
type keyMade struct{ *client.Key }

func (k keyMade) text(p *page) { p.line("%s", k.Token) }

type keyList struct {
	Keys []client.Key `json:"keys"`
}

func (k keyList) text(p *page) {
	if len(k.Keys) == 0 {
		p.line("There are no keys: callers on this machine need none. `airlock keys create` makes one.")
		return
	}
	rows := [][]string{{"ID", "OWNER", "ADMIN", "MADE", "REVOKED", "PACKAGES"}}
	for _, key := range k.Keys {
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
	p.table(rows)
}

type keyRevoked struct {
	ID string `json:"revoked"`
}

func (k keyRevoked) text(p *page) { p.line("Key %s lets nobody in any more.", k.ID) }
