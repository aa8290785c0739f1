package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

func (a *app) volumes() *cobra.Command {
	return command.GroupOf("volumes", "Makes, lists and removes folders that outlive sessions",
		`Makes, lists and removes volumes: folders with names, to which programs write and
which outlive them and their sessions.

  airlock volumes create data
  airlock run --volume data -c 'open("/volumes/data/a.txt", "w").write("kept")'
  airlock run --volume data:ro -c 'print(open("/volumes/data/a.txt").read())'

They are kept by the service that holds the data directory, or that at --server URL.`,
		a.volumesCreate(), a.volumesList(), a.volumesRemove())
}

// withVolumes does something with the service that keeps the volumes.
func (a *app) withVolumes(ctx context.Context, do func(*client.Client) error) error {
	return a.withService(ctx, "`airlock serve` starts one, --server URL names one elsewhere",
		"volumes are kept by a service, and none holds "+a.Config.Data, do)
}

func (a *app) volumesCreate() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "create NAME",
		Short: "Makes an empty volume",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withVolumes(cmd.Context(), func(c *client.Client) error {
				made, err := c.CreateVolume(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.PrintLine(made, "created %[1]s: programs have it with --volume %[1]s, at /volumes/%[1]s", made.Name)
			})
		},
	}, config.Client)
}

func (a *app) volumesList() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "list",
		Short: "Lists the volumes, with their sizes and what uses them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withVolumes(cmd.Context(), func(c *client.Client) error {
				all, err := c.ListVolumes(cmd.Context())
				if err != nil {
					return err
				}
				rows := [][]string{{"NAME", "SIZE", "FILES", "USED BY"}}
				for _, v := range all {
					rows = append(rows, []string{v.Name, command.SizeText(v.Bytes), fmt.Sprint(v.Files),
						usersText(v.Users)})
				}
				return a.PrintTable(map[string]any{"volumes": all},
					"There are no volumes. `airlock volumes create NAME` makes one.", rows)
			})
		},
	}, config.Client)
}

func usersText(users []client.VolumeUser) string {
	var texts []string
	for _, u := range users {
		does := "writes"
		if u.ReadOnly {
			does = "reads"
		}
		texts = append(texts, "session "+u.Session+" "+does)
	}
	return strings.Join(texts, ", ")
}

func (a *app) volumesRemove() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "remove NAME",
		Short: "Removes a volume with all that is in it, unless it is in use",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withVolumes(cmd.Context(), func(c *client.Client) error {
				if err := c.DeleteVolume(cmd.Context(), args[0]); err != nil {
					return err
				}
				return a.PrintLine(map[string]string{"removed": args[0]}, "removed %s", command.Printable(args[0]))
			})
		},
	}, config.Client)
}

// volumeMounts reads the values of --volume. A service keeps the volumes.
func (a *app) volumeMounts(ctx context.Context, asked []string) (mounts []client.VolumeMount, err error) {
	if len(asked) > 0 {
		if err := a.withVolumes(ctx, func(*client.Client) error { return nil }); err != nil {
			return nil, err
		}
	}
	for _, text := range asked {
		rest, readOnly := strings.CutSuffix(text, ":ro")
		name, path, _ := strings.Cut(rest, ":")
		mounts = append(mounts, client.VolumeMount{Name: name, Path: path, ReadOnly: readOnly})
	}
	return mounts, nil
}
