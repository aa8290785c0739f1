package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect/mcp"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/regular"
	"github.com/airlock-run/airlock/internal/upstream"
)

type mcpOptions struct {
	files, output string
	upstream      string
	workspaces    []string
	images        int
	noLinks       bool
	yes           bool
	keep          bool // keep the programs' files in a folder of the user's cache: no output is named
}

func (a *app) mcp() *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serves the Model Context Protocol over standard input and output, for agents",
		Long: `Serves the Model Context Protocol over standard input and output: an agent such
as Claude, Cursor or VS Code starts this command, and runs code in live sessions
with files, in the sandbox.

It works through the service that holds the data directory, if one is running,
else in this process, which keeps no data directory; or on --server URL. The agent may
hand files of the project's folder to programs by their names; what programs
make is saved where a person can open it.
airlock mcp install prints what an agent's settings need, and writes it if asked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkMCP(o); err != nil {
				return err
			}
			o.keep = !cmd.Flags().Changed("output")
			return a.serveMCP(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.files, "files", "",
		"`DIR` whose files the agent may hand to programs by their names; nothing is changed in it (the project's\n"+
			"folder, without hidden files)")
	flags.StringVarP(&o.output, "output", "o", "", "`DIR` to save the programs' files into, \"\" for none (a folder in\n"+
		"the user's cache, for 7 days)")
	flags.StringArrayVar(&o.workspaces, "workspace", nil, "`DIR` that the agent may propose changes of; may be repeated")
	flags.StringVar(&o.upstream, "upstream", "",
		"`FILE` with other servers, as agents have them in mcpServers: programs call their tools")
	flags.IntVar(&o.images, "images", 2,
		"pictures in an answer, at most `N`; 0 for agents that show them to the model as text")
	flags.BoolVar(&o.noLinks, "no-links", false, "no links to files in an answer, for agents that fail on them")
	flags.BoolVarP(&o.yes, "yes", "y", false, "agree in advance to all changes of --workspace")
	command.AddOptions(flags, config.Client)
	cmd.AddCommand(a.mcpInstall(), a.mcpSkill())
	return cmd
}

// checkMCP returns an error if a flag names a folder that cannot be used, which an agent would notice late.
func (a *app) checkMCP(o mcpOptions) error {
	for _, name := range append([]string{o.files}, o.workspaces...) {
		if name == "" {
			continue
		}
		if err := command.ReadableFolder(name); err != nil {
			return err
		}
	}
	if o.output != "" {
		if err := command.CheckFolder(o.output); err != nil {
			return err
		}
	}
	return a.checkData()
}

// serveMCP serves until the input ends.
func (a *app) serveMCP(ctx context.Context, o mcpOptions) error {
	if err := o.makeAbsolute(); err != nil {
		return err
	}
	d := &mcpServer{app: a, options: o, ctx: ctx, sent: map[string]string{}}
	defer d.close()
	stdio := mcp.Stdio{Connect: d.endpoint, Version: readVersion(a.release).Version}
	stdio.Send = d.sendAll
	if o.keep {
		var err error
		if d.options.output, err = madeFolder(time.Now()); err != nil {
			d.Log.Warn("files of programs are not saved: name a folder with -o", "err", err)
		}
	}
	if d.options.output != "" {
		stdio.Save = d.save
	}
	if len(o.workspaces) > 0 {
		stdio.Changes = &folderChanges{app: a, roots: o.workspaces, yes: o.yes}
	}
	if o.upstream != "" {
		if err := d.codeMode(); err != nil {
			return err
		}
	}
	if err := stdio.Serve(ctx, a.Streams.In, a.Streams.Out); err != nil {
		return command.Fail(command.ExitFailed, "", "%w", err)
	}
	return nil
}

// makeAbsolute makes the paths of the folders absolute, for answers that name them: an agent cannot know in which
// folder this command was started.
func (o *mcpOptions) makeAbsolute() (err error) {
	folders := []*string{&o.files, &o.output}
	for i := range o.workspaces {
		folders = append(folders, &o.workspaces[i])
	}
	for _, folder := range folders {
		if *folder == "" {
			continue
		}
		if *folder, err = filepath.Abs(*folder); err != nil {
			return command.Fail(command.ExitFailed, "", "%w", err)
		}
	}
	return nil
}

// mcpServer serves an agent on this machine: it holds the connection to the service that
// runs programs, and the folders of their files.
type mcpServer struct {
	*app
	options mcpOptions
	ctx     context.Context //nolint:containedctx // that of the command: a connection outlives the call that made it
	tools   *upstream.Set   // of other servers; nil: none

	mu   sync.Mutex
	conn *connection
	kept atomic.Int64      // bytes of files in the folder of the user's cache
	end  func()            // ends the handler for a service in this process
	sent map[string]string // ids of uploaded files, by name, size and time
}

// endpoint connects when the first message needs it.
func (d *mcpServer) endpoint(context.Context) (*mcp.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	connect := d.connect
	if d.tools != nil { // programs call them through this process
		connect = d.startLocal
	}
	conn, err := connect(d.ctx)
	if err != nil {
		p := command.Explain(err)
		return nil, fmt.Errorf("%s. %s", p.Message, p.Hint)
	}
	d.conn = conn
	if conn.service != nil {
		return d.serveHere(), nil
	}
	address, key := d.Config.Server, d.Config.Key.Reveal()
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.MaxIdleConnsPerHost = parallelCalls // the default of 2 has each further call connect anew
	if socket, ok := strings.CutPrefix(address, "unix://"); ok || address == "" {
		socket = cmp.Or(socket, d.Config.Socket())
		address = "http://localhost"
		own.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath("mcp")
	u.RawQuery = d.options.query()
	return &mcp.Endpoint{URL: u.String(), Client: keyedClient(own, key)}, nil
}

// query returns what the address says of answers.
func (o mcpOptions) query() string {
	q := url.Values{"images": {strconv.Itoa(o.images)}}
	if o.noLinks {
		q.Set("links", "0")
	}
	return q.Encode()
}

// serveHere serves the protocol for a service in this process.
func (d *mcpServer) serveHere() *mcp.Endpoint {
	s, local := d.conn.service, engine.Caller{Owner: engine.Local}
	options := mcp.Options{
		Engine: s.engine, Live: s.interpreters, Caller: func(*http.Request) engine.Caller { return local }, Local: local,
		Images: d.options.images, Bodies: &s.bodies, Version: readVersion(d.release).Version, Log: d.Log,
	}
	if d.tools != nil {
		options.Upstream = codeTools{d.tools}
	}
	handler := mcp.NewHandler(mcp.New(options), "")
	dial, end := serveMemory(handler)
	d.end = func() { handler.Close(); end() }
	address := "http://localhost/?" + d.options.query()
	return &mcp.Endpoint{URL: address, Client: outbound.Guard(http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		MaxIdleConnsPerHost: parallelCalls,
	}})}
}

// parallelCalls is the usual number of parallel calls of one host. Further calls open
// new connections.
const parallelCalls = 100

// keyedClient returns a client that sends a key with every request.
func keyedClient(transport http.RoundTripper, key string) *http.Client {
	return outbound.Guard(http.Client{Transport: keyed{transport, key}})
}

type keyed struct {
	http.RoundTripper
	key string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.key != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return k.RoundTripper.RoundTrip(r)
}

func (d *mcpServer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.end != nil {
		d.end()
	}
	if d.conn != nil {
		d.conn.close()
	}
	if d.tools != nil {
		d.tools.Close()
	}
}

// sendAll returns the ids of files. A name is an id, or that of a file below --files or in the project's folder.
func (d *mcpServer) sendAll(
	ctx context.Context, names []string, roots func(context.Context) []string,
) ([]string, error) {
	ids := slices.Clone(names)
	var folders []string
	asked := false
	for i, name := range names {
		if _, err := engine.ParseID(name); err == nil {
			continue
		}
		if d.options.files == "" && !asked {
			folders, asked = roots(ctx), true
		}
		file, err := d.find(name, folders)
		if err != nil {
			return nil, err
		}
		if ids[i], err = d.send(ctx, file); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (d *mcpServer) send(ctx context.Context, file sharedFile) (string, error) {
	root, err := os.OpenRoot(file.folder)
	if err != nil {
		return "", command.FolderError(file.folder, err)
	}
	defer root.Close()
	name, clean := file.name, file.name
	f, err := regular.OpenIn(root, filepath.FromSlash(clean))
	if errors.Is(err, regular.ErrNotFile) {
		return "", fmt.Errorf("files: %q is not a file", name)
	}
	if err != nil {
		return "", fmt.Errorf("files: there is no file %q below %s", name, root.Name())
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	version := fmt.Sprint(file.folder, "\x00", clean, "\x00", info.Size(), info.ModTime().UnixNano())
	d.mu.Lock()
	id := d.sent[version]
	d.mu.Unlock()
	if id != "" {
		if _, err := d.conn.client.GetFile(ctx, id); err == nil {
			return id, nil
		}
	}
	stored, err := d.conn.client.Upload(ctx, path.Base(clean), f, 0)
	if err != nil {
		return "", fmt.Errorf("files: %s was not sent: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sent) >= maxSent {
		clear(d.sent) // others are sent again when they are needed
	}
	d.sent[version] = stored.ID
	return stored.ID, nil
}

// maxLinks bounds the addresses of saved files in an answer.
const maxLinks = 10

// maxSent bounds the remembered ids of uploaded files.
const maxSent = 4096

// save saves what a program made. No user can be asked: a name that is taken gets a
// number, and a file that wants an approval is left out.
func (d *mcpServer) save(ctx context.Context, files []mcp.MadeFile) (string, error) {
	output := d.options.output
	root, err := command.OpenFolder(output)
	if err != nil {
		return "", err
	}
	defer root.Close()
	var held string
	s := &command.Saver{Root: root, Fetch: d.conn.download,
		Choose: func(string) (command.Choice, error) { return command.ChooseRename, nil },
		Allow: func(name, why string) (bool, error) {
			held = command.PrintableName(name) + " (" + why + ")"
			return false, nil
		},
	}
	var outputs []client.File
	for _, f := range files {
		outputs = append(outputs, client.File{ID: f.ID, Path: f.Path, Size: f.Size, SHA256: f.SHA256})
	}
	s.Check(outputs)
	var saved, links, left []string
	for _, f := range outputs {
		if d.options.keep && d.kept.Add(f.Size) > madeBytes {
			left = append(left, command.PrintableName(f.Path)+" (too much without -o DIR)")
			continue
		}
		held = ""
		is, err := s.Save(ctx, f)
		switch {
		case err != nil && held == "":
			left = append(left, command.PrintableName(f.Path)+" ("+command.Explain(err).Message+")")
		case held != "":
			left = append(left, held)
		default:
			saved = append(saved, command.PrintableName(is.As))
			links = append(links, fileURL(filepath.Join(output, filepath.FromSlash(is.As))))
		}
	}
	said := "Saved in " + command.PrintableName(root.Name()) + ": " + strings.Join(saved, ", ") + ". The person opens " +
		strings.Join(links[:min(len(links), maxLinks)], " ")
	if len(saved) == 0 {
		said = ""
	}
	if len(left) > 0 {
		said += "\nNot saved, since a person should look first: " + strings.Join(left, ", ") + "."
	}
	return strings.TrimSpace(said), nil
}

// codeMode lets programs call the tools of other servers. This process makes the calls,
// so that it also has the engine.
func (d *mcpServer) codeMode() error {
	if d.Config.Server != "" {
		return command.Fail(command.ExitUsage, "leave --server out: code mode runs programs in this process",
			"--upstream and --server exclude each other")
	}
	text, err := os.ReadFile(d.options.upstream)
	if err != nil {
		return command.Unreadable(d.options.upstream, err)
	}
	servers, err := upstream.Read(text)
	if err != nil {
		return command.Fail(command.ExitUsage, "", "%s: %w", d.options.upstream, err)
	}
	d.tools = upstream.New(servers, readVersion(d.release).Version, d.Log)
	return nil
}

// codeTools implements mcp.Upstream.
type codeTools struct{ *upstream.Set }

func (t codeTools) Host(ask func(context.Context, string) (bool, error)) live.Host {
	return t.Set.Host(ask)
}
