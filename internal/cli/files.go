package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/regular"
)

func (a *app) files() *cobra.Command {
	cmd := command.GroupOf("files", "Lists, saves and removes your files: uploads, and what runs have made",
		`Lists, saves and removes your files: those that you have uploaded and those that
your runs and notebooks have made, as on the page Files.

  airlock files ls
  airlock files get plot.png
  airlock files get --run ID -o results

They are kept, until they expire, by the service that holds the data directory, or
by that at --server URL. The files at a provider of models are those of `+"`airlock provider`.",
		a.filesList(), a.filesPut(), a.filesGet(), a.filesRemove())
	cmd.SuggestFor = []string{"runs", "outputs", "artifacts", "download", "upload"}
	return cmd
}

// withFiles does something with the service that keeps the files.
func (a *app) withFiles(ctx context.Context, do func(*client.Client) error) error {
	return a.withService(ctx, "`airlock serve` starts one, --server URL names one elsewhere",
		"files are kept by a service, and none holds "+a.Config.Data, do)
}

// pathOf returns the path by which a file is listed and saved.
func pathOf(f client.File) string { return cmp.Or(f.Path, f.Name) }

// filesReport is what files ls prints.
type filesReport struct {
	Files []client.File `json:"files"`
	More  bool          `json:"more"` // the limit left some out
}

func (r filesReport) WriteText(p *command.Page) {
	if len(r.Files) == 0 {
		p.Line("You have no files. `airlock files put FILE` uploads one, and runs add what they make.")
		return
	}
	rows := [][]string{{"NAME", "SIZE", "CREATED", "EXPIRES", "FROM", "ID"}}
	for _, f := range r.Files {
		from := "upload"
		if f.Run != "" {
			from = "run " + f.Run
		}
		rows = append(rows, []string{command.PrintableName(pathOf(f)), command.SizeText(f.Size),
			f.CreatedAt.Local().Format(fileTime), f.ExpiresAt.Local().Format(fileTime), from, f.ID})
	}
	p.Table(rows)
	if r.More {
		p.Line("There are more: --limit N lists them.")
	}
}

const fileTime = "2006-01-02 15:04"

func (a *app) filesList() *cobra.Command {
	limit := 100
	cmd := a.WithFlags(&cobra.Command{
		Use:   "ls",
		Short: "Lists your files, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFiles(cmd.Context(), func(c *client.Client) error {
				r := filesReport{Files: []client.File{}}
				for f, err := range c.AllFiles(cmd.Context()) {
					if err != nil {
						return err
					}
					if r.More = len(r.Files) >= limit; r.More {
						break
					}
					r.Files = append(r.Files, f)
				}
				return a.Print(r)
			})
		},
	}, config.Client)
	cmd.Flags().IntVar(&limit, "limit", limit, "`N` files at most")
	return cmd
}

func (a *app) filesPut() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "put FILE...",
		Short: "Uploads files",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.withFiles(cmd.Context(), func(c *client.Client) error {
				r := filesPutReport{Files: []client.File{}}
				var failed error
				for _, name := range names {
					f, err := uploadFile(cmd.Context(), c, name)
					if err != nil {
						failed = errors.Join(failed, err)
						continue
					}
					r.Files = append(r.Files, *f)
				}
				return a.Finish(&r, failed)
			})
		},
	}, config.Client)
}

// filesPutReport is what files put prints.
type filesPutReport struct {
	Files []client.File `json:"files"`
	command.Ended
}

func (r filesPutReport) WriteText(p *command.Page) {
	for _, f := range r.Files {
		p.Line("%s  %s", f.ID, command.PrintableName(f.Name))
	}
}

func uploadFile(ctx context.Context, c *client.Client, name string) (*client.File, error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, command.Unreadable(name, err)
	}
	defer f.Close()
	uploaded, err := c.Upload(ctx, filepath.Base(name), f, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command.PrintableName(name), err)
	}
	return uploaded, nil
}

// filesGetReport is what files get prints.
type filesGetReport struct {
	Folder string              `json:"folder"`
	Files  []command.SavedFile `json:"files"`
	command.Ended
}

func (r filesGetReport) WriteText(p *command.Page) {
	for _, s := range r.Files {
		switch s.State {
		case command.SaveDone:
			p.Line("saved %s", command.PrintableName(filepath.Join(r.Folder, s.As)))
		case command.SaveUnchanged:
			p.Line("unchanged %s", command.PrintableName(filepath.Join(r.Folder, s.As)))
		}
	}
}

func (a *app) filesGet() *cobra.Command {
	run, save := "", command.SaveFlags{Folder: "."}
	cmd := a.WithFlags(&cobra.Command{
		Use:   "get [NAME|ID...]",
		Short: "Saves files here, by name (the newest of that name) or by id, or all that a run has made",
		RunE: func(cmd *cobra.Command, wanted []string) error {
			if (run == "") == (len(wanted) == 0) {
				return command.Fail(command.ExitUsage, "`airlock files ls` lists them",
					"name files, or a run with --run ID, and not both")
			}
			if err := save.Check(); err != nil {
				return err
			}
			return a.withFiles(cmd.Context(), func(c *client.Client) error {
				files, err := findFiles(cmd.Context(), c, wanted, run)
				if err != nil {
					return err
				}
				return a.saveFiles(cmd.Context(), c, files, save)
			})
		},
	}, config.Client)
	cmd.Flags().StringVar(&run, "run", "", "all files that the run `ID` has made")
	save.Add(cmd.Flags(), "`DIR` to save them into", "save under other names where files of these names exist")
	return cmd
}

// findFiles returns the files of a run, or those that are wanted by name or id.
func findFiles(ctx context.Context, c *client.Client, wanted []string, run string) ([]client.File, error) {
	if run != "" {
		made, err := c.GetRun(ctx, run)
		if err != nil {
			return nil, err
		}
		if len(made.Files) == 0 {
			return nil, command.Fail(command.ExitFailed, "`airlock files ls` lists those of others",
				"the run %s has made no files", command.Printable(run))
		}
		return made.Files, nil
	}
	found, left := make([]client.File, len(wanted)), len(wanted)
	for f, err := range c.AllFiles(ctx) {
		if err != nil {
			return nil, err
		}
		for i, name := range wanted {
			if found[i].ID == "" && (f.ID == name || f.Name == name || f.Path == name) {
				found[i], left = f, left-1
			}
		}
		if left == 0 {
			break
		}
	}
	for i, name := range wanted {
		if found[i].ID == "" {
			return nil, command.Fail(command.ExitFailed, "`airlock files ls` lists those that you have",
				"you have no file %s: it was never kept, has expired or was removed", command.PrintableName(name))
		}
	}
	return found, nil
}

// saveFiles saves files as `airlock run -o` does.
func (a *app) saveFiles(ctx context.Context, c *client.Client, files []client.File, o command.SaveFlags) error {
	s, err := command.NewSaver(ctx, a.App, o.Folder, o, func(ctx context.Context, id string, to io.Writer) error {
		_, err := c.Download(ctx, id, to)
		return err
	})
	if err != nil {
		return err
	}
	defer s.Root.Close()
	r := filesGetReport{Folder: o.Folder, Files: []command.SavedFile{}}
	for i := range files {
		files[i].Path = pathOf(files[i])
	}
	s.Check(files)
	var failed error
	var held []string
	for _, f := range files {
		saved, err := s.Save(ctx, f)
		r.Files = append(r.Files, saved)
		switch saved.State {
		case command.SaveHeld:
			held = append(held, f.Path)
		case command.SaveExists:
			err = errors.Join(err, command.Fail(command.ExitApproval,
				"--yes saves it under a new name, and -o may name another folder",
				"%s exists in %s", command.PrintableName(f.Path), command.PrintableName(o.Folder)))
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(held) > 0 {
		failed = errors.Join(failed, command.HeldProblem(held...))
	}
	return a.Finish(&r, failed)
}

func (a *app) filesRemove() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "rm ID...",
		Short: "Removes files before they expire",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.withFiles(cmd.Context(), func(c *client.Client) error {
				r := filesRemoveReport{Removed: []string{}}
				var failed error
				for _, id := range ids {
					if err := c.DeleteFile(cmd.Context(), id); err != nil {
						failed = errors.Join(failed, notRemoved(id, err))
						continue
					}
					r.Removed = append(r.Removed, id)
				}
				return a.Finish(&r, failed)
			})
		},
	}, config.Client)
}

func notRemoved(id string, err error) error {
	shown := command.PrintableName(id)
	if !errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%s: %w", shown, err)
	}
	return &command.Failure{Code: command.ExitFailed, Word: string(client.ErrNotFound),
		Err:  fmt.Errorf("you have no file with the id %s", shown),
		Hint: "files are removed by id, which `airlock files ls` lists"}
}

// filesRemoveReport is what files rm prints.
type filesRemoveReport struct {
	Removed []string `json:"removed"`
	command.Ended
}

func (r filesRemoveReport) WriteText(p *command.Page) {
	for _, id := range r.Removed {
		p.Line("removed %s", command.Printable(id))
	}
}
