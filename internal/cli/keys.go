package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect/e2b"
	"github.com/airlock-run/airlock/internal/engine"
)

func (a *app) keys() *cobra.Command {
	return command.GroupOf("keys", "Makes, lists and revokes the keys that let callers in",
		`Makes, lists and revokes the keys that let callers in.

They are kept in the data directory. Where a service holds it, the service is
asked; --server URL asks one elsewhere, with a key that has admin rights.`,
		a.keysCreate(), a.keysList(), a.keysRevoke())
}

func (a *app) keysCreate() *cobra.Command {
	wanted := client.NewKey{Owner: string(engine.Local)}
	forE2B, users, wall := false, "", ""
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Makes a key and prints its token, this once",
		Long: `Makes a key and prints its token on standard output, this once: only a hash of
it is kept. Files and runs belong to the key's owner; keys of one owner share
them.

An application has one key for all of its users, whom it names in its requests.
Each of them has at most what one owner may have, and so have all of them
together, unless --users says otherwise: --users 200 is for 200 users, each with
as much as an owner, and --users 200:20 for 200 users with as much as 20 owners
together. A key that an application shows in addresses should open nothing else:
--only jupyter.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			args := []string{"create", "--owner", wanted.Owner, "--packages", wanted.Packages, "--users", users,
				"--wall", wall, "--month", wanted.Month}
			for _, image := range wanted.Images {
				args = append(args, "--images", image)
			}
			for _, protocol := range wanted.Only {
				args = append(args, "--only", protocol)
			}
			wanted.Wall = client.Wall(wall)
			var err error
			if wanted.Users, wanted.Shares, err = readUsers(users); err != nil {
				return err
			}
			for _, rule := range wanted.Network {
				args = append(args, "--network", rule)
			}
			for _, mount := range wanted.Mounts {
				args = append(args, "--mounts", mount)
			}
			if wanted.Admin {
				args = append(args, "--admin")
			}
			if forE2B {
				args = append(args, "--e2b")
			}
			return a.withKeys(cmd.Context(), args, func(ctx context.Context, c *client.Client) error {
				before, err := c.ListKeys(ctx)
				if err != nil {
					return err
				}
				made, err := c.CreateKey(ctx, wanted)
				if err != nil {
					return err
				}
				if forE2B {
					made.Token = e2b.Key(made.Token)
				}
				_ = a.PrintLine(made, "%s", made.Token) // the token alone, for pipes
				if !a.JSON {
					a.Say("%s", aboutKey(made, len(before) == 0))
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
	cmd.Flags().StringSliceVar(&wanted.Images, "images", nil, "`NAMES` of images that its programs can have, the first "+
		"unless a request names another; host is none; else all, and what the settings say")
	cmd.Flags().StringSliceVar(&wanted.Mounts, "mounts", nil, "`NAMES` of mounts, or NAME:ro, that its programs may ask "+
		"for and have unless a request says otherwise; beside mount_access")
	cmd.Flags().StringVar(&users, "users", "", "`N[:OWNERS]` users of an application, whom its requests name, that may have "+
		"something at once, and as how much as how many owners all of them together; else any number, with as much as one")
	cmd.Flags().StringSliceVar(&wanted.Only, "only", nil, "`PROTOCOLS` that it opens: api, dify, e2b, jupyter, librechat, "+
		"mcp, onyx, openai, terminal; else all, and the page")
	cmd.Flags().StringVar(&wall, "wall", "", "`WALL` that its programs have at least: gvisor is a kernel of its own for "+
		"each; else that of the service")
	cmd.Flags().StringVar(&wanted.Month, "month", "", "`AMOUNTS` that all callers with the key may use in a month, as "+
		"runs=10000,cpu=100h,memory=500GiBh,stored=10GiB,sent=100GiB, or some of these; beside owner_month")
	cmd.Flags().BoolVar(&forE2B, "e2b", false, "spell the token as E2B's SDKs demand it; it opens what is below /e2b")
	return a.WithFlags(cmd, config.Client)
}

// readUsers reads how many users a key is for, and as how many owners they count together.
func readUsers(text string) (users, shares int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	number, owners, two := strings.Cut(text, ":")
	users, err = strconv.Atoi(number)
	if shares = users; two && err == nil {
		shares, err = strconv.Atoi(owners)
	}
	if err != nil || users < 1 || shares < 1 {
		return 0, 0, command.Fail(command.ExitUsage,
			"--users 200 is for 200 users, --users 200:20 for 200 users with as much as 20 owners",
			"--users %q is no number of users", text)
	}
	return users, shares, nil
}

// aboutKey tells what a new key is for, what it does not open, and what the first one changes.
func aboutKey(made *client.Key, first bool) string {
	about := []string{fmt.Sprintf("Key %s for %s", made.ID, made.Owner)}
	if made.Admin {
		about[0] += ", with admin rights"
	}
	if made.Users > 0 {
		about[0] += fmt.Sprintf(", for %d users with as much as %d owners", made.Users, made.Shares)
	}
	if made.Wall == client.WallGVisor {
		about[0] += ", whose programs have a kernel of their own"
	}
	about[0] += ". The line above is its token; it is not shown again."
	switch {
	case len(made.Only) > 0:
		about = append(about, "It opens "+strings.Join(made.Only, ", ")+" and nothing else.")
	case !made.Admin:
		about = append(about, "It opens everything but the keys, the service's state and Ask, which asks models at the "+
			"service's cost: these take a key of `airlock keys create --admin`.")
	}
	if first {
		about = append(about, "It is the first key: from now on callers on this machine need one, too, "+
			"also after it was revoked.")
	}
	return strings.Join(about, "\n")
}

func (a *app) keysList() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "list",
		Short: "Lists the keys, revoked ones too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withKeys(cmd.Context(), []string{"list"}, func(ctx context.Context, c *client.Client) error {
				keys, err := c.ListKeys(ctx)
				if err != nil {
					return err
				}
				return a.PrintTable(map[string]any{"keys": append([]client.Key{}, keys...)},
					"There are no keys: callers on this machine need none. `airlock keys create` makes one.", keyRows(keys))
			})
		},
	}, config.Client)
}

func (a *app) keysRevoke() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "revoke ID",
		Short: "Ends a key at once; its owner's files stay",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			again := []string{"revoke", "--", args[0]}
			return a.withKeys(cmd.Context(), again, func(ctx context.Context, c *client.Client) error {
				if err := c.RevokeKey(ctx, args[0]); err != nil {
					return err
				}
				return a.PrintLine(map[string]string{"revoked": args[0]}, "Key %s is revoked: nobody can use it any more.", args[0])
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
	if a.Config.Server != "" || a.socketAnswers(ctx) {
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
	kept, err := a.openStorage(ctx, a.Config.Data, nil)
	return command.Using(kept, err, func(kept *storage) error {
		// Keys need no sandbox, and the engine is not opened: it runs nothing.
		c := a.inProcess(engine.New(engine.Config{Images: imageRules(a.Config, a.images()), Mounts: mountRules(a.Config)},
			nil, kept.blobs, kept.index, a.Log), operator)
		defer c.Close()
		return do(ctx, c)
	})
}

func keyRows(keys []client.Key) [][]string {
	rows := [][]string{{"ID", "OWNER", "ADMIN", "MADE", "REVOKED", "PACKAGES", "IMAGES", "MOUNTS", "USERS", "WALL",
		"MONTH", "ONLY"}}
	for _, key := range keys {
		admin, revoked := "no", "-"
		if key.Admin {
			admin = "yes"
		}
		users := "-"
		if key.Users > 0 {
			users = fmt.Sprintf("%d:%d", key.Users, key.Shares)
		}
		if !key.RevokedAt.IsZero() {
			revoked = key.RevokedAt.Local().Format(time.DateOnly)
		}
		rows = append(rows, []string{key.ID, command.Printable(key.Owner), admin, key.CreatedAt.Local().Format(time.DateOnly),
			revoked, cmp.Or(command.Printable(key.Packages), "-"),
			cmp.Or(command.Printable(strings.Join(key.Images, ",")), "-"),
			cmp.Or(command.Printable(strings.Join(key.Mounts, ",")), "-"), users,
			cmp.Or(command.Printable(string(key.Wall)), "-"),
			cmp.Or(command.Printable(key.Month), "-"),
			cmp.Or(command.Printable(strings.Join(key.Only, ",")),
				"-")})
	}
	return rows
}
