package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/changes"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

const maxPrompt = 1 << 20

// promptForm is the form of a turn.
type promptForm struct {
	askForm
	Text    string
	See     bool // show pictures to the model itself
	Propose bool // replies may propose changes of the project's files
	Policy  *workspace.Policy
	Files   []engine.File
	Paths   []string // of files in the project's folder
}

// readPrompt reads the form of a turn, and returns the prompt that it asks for.
func (p *askPage) readPrompt(v *webRequest) (f *promptForm, prompt conversation.Prompt, err error) {
	f = &promptForm{}
	if err := v.eachPart(func(part *multipart.Part) error { return p.readPromptPart(v, part, f) }); err != nil {
		return nil, prompt, err
	}
	switch {
	case strings.TrimSpace(f.Text) == "":
		return nil, prompt, refuse(http.StatusBadRequest, "There is no prompt.", "Say what the model is to do.")
	case len(f.Files)+len(f.Paths) > maxInputs:
		return nil, prompt, refuse(http.StatusBadRequest, "A turn takes at most 256 files.", "Pack them into an archive.")
	}
	prompt, err = p.prompt(v, f)
	return f, prompt, err
}

func (p *askPage) readPromptPart(v *webRequest, part *multipart.Part, f *promptForm) error {
	add := func(file engine.File) error {
		f.Files = append(f.Files, file)
		return nil
	}
	if part.FormName() == "upload" {
		return p.storeUpload(v, part, add)
	}
	most := int64(maxField)
	if name := part.FormName(); name == "prompt" || name == "paths" || name == "policy" || name == "instructions" {
		most = maxPrompt
	}
	text, err := field(part, most)
	if err != nil {
		return err
	}
	text = strings.ReplaceAll(text, "\r\n", "\n") // browsers send forms that way
	switch part.FormName() {
	case "policy":
		f.Policy, err = policyOf(text)
		return err
	case "prompt":
		f.Text = text
	case "provider":
		f.Provider = text
	case "model":
		f.Model = strings.TrimSpace(text)
	case "tool":
		f.Tool = text
	case "instructions":
		f.Instructions = text
	case "project":
		f.Project = text
	case "see":
		f.See = text != ""
	case "propose":
		f.Propose = text != ""
	case "path", "paths":
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				f.Paths = append(f.Paths, line)
			}
		}
	case "file":
		return p.storedFile(v, text, add)
	}
	return nil
}

// settings returns the settings of a new conversation.
func (p *askPage) settings(v *webRequest, f *promptForm) (conversation.Settings, error) {
	s := p.Settings
	asked, err := p.modelOf(v, f.Provider)
	if err != nil {
		return s, err
	}
	s.Provider, s.ModelURL, s.Model, s.Instructions = asked.Provider, asked.URL, f.Model, f.Instructions
	if s.Model == "" {
		return s, refuse(http.StatusBadRequest, "No model was named.", "Write the name that its provider has for it.")
	}
	switch s.Tool = provider.Tool(f.Tool); s.Tool {
	case "":
		s.Tool = provider.ToolAuto
	case provider.ToolAuto, provider.ToolPython, provider.ToolShell, provider.ToolNone:
	default:
		return s, refuse(http.StatusBadRequest, "There is no such tool.", "Choose one from the list.")
	}
	if f.Propose && f.Project != "" {
		link, err := p.project(v, f.Project)
		if err != nil {
			return s, err
		}
		s.Project, s.API, s.Policy = link.Project, link.API, f.Policy
	}
	return s, nil
}

// project returns a project that the visitor may use.
func (p *askPage) project(v *webRequest, name string) (changes.Link, error) {
	projects, err := p.Projects(v.Context(), v.owner())
	if err != nil {
		return changes.Link{}, err
	}
	if at := slices.IndexFunc(projects, func(l changes.Link) bool { return l.Project == name }); at >= 0 {
		return projects[at], nil
	}
	return changes.Link{}, refuse(http.StatusNotFound, "The project "+name+
		" is not linked with a folder that this service was given.", "Link it again, or choose another one.")
}

// prompt returns the prompt that a form asks for.
func (p *askPage) prompt(v *webRequest, f *promptForm) (conversation.Prompt, error) {
	prompt := conversation.Prompt{Text: f.Text}
	for _, file := range f.Files {
		given := uploaded(v.Context(), p.Engine, v.caller, file)
		given.See = f.See
		prompt.Files = append(prompt.Files, given)
	}
	if f.Project == "" {
		if len(f.Paths) > 0 {
			return prompt, refuse(http.StatusBadRequest, "Files of a project were named, and no project.", "Choose the project.")
		}
		return prompt, nil
	}
	link, err := p.project(v, f.Project)
	if err != nil {
		return prompt, err
	}
	prompt.Folder, prompt.Browse = link.Root, link.Root
	for _, name := range f.Paths {
		file, err := conversation.OpenProjectFile(link.Root, name)
		if err != nil {
			return prompt, refuse(http.StatusBadRequest, "This file of the project cannot be given: "+err.Error()+".",
				"Take it out of the list, or write its path as in the project, with slashes.")
		}
		file.See = f.See
		prompt.Files = append(prompt.Files, file)
	}
	return prompt, nil
}

// folderView is one folder of a project.
type folderView struct {
	Project string
	Parent  string // "" at the top
	Path    string
	Entries []conversation.FolderEntry
	More    bool
}

// folder lists a folder of a project, for choosing files.
func (p *askPage) folder(w http.ResponseWriter, v *webRequest) error {
	link, err := p.project(v, v.PathValue("project"))
	if err != nil {
		return err
	}
	at := cmp.Or(v.URL.Query().Get("at"), ".")
	body := folderView{Project: link.Project, Path: at}
	if body.Entries, body.More, err = conversation.ListFolder(link.Root, at); err != nil {
		return refuse(http.StatusNotFound, "This folder cannot be shown: "+err.Error()+".", "")
	}
	if at != "." {
		body.Parent = path.Dir(at)
	}
	return p.sendPart(w, v, "ask", "folder", body)
}

// uploaded returns a stored file as an input, which a turn opens later.
func uploaded(ctx context.Context, store *engine.Service, caller engine.Caller, f engine.File) conversation.File {
	ctx = context.WithoutCancel(ctx)
	kind, _, _ := strings.Cut(f.MIME, ";")
	return conversation.File{Stored: f.ID.String(), SHA256: f.SHA256.String(), Source: provider.Source{
		Path: f.Name, Name: f.Name, MIME: kind, Size: f.Size,
		Open: func() (io.ReadSeekCloser, error) {
			_, content, err := store.OpenFile(ctx, caller, f.ID)
			if errors.Is(err, engine.ErrNotFound) {
				return nil, errors.New("the uploaded file was deleted or has expired")
			}
			return content, err
		}}}
}

// Stored returns a function that opens uploaded files for a resumed conversation. See
// conversation.HostOptions.
func Stored(store *engine.Service) func(ctx context.Context, owner, id string) (conversation.File, error) {
	return func(ctx context.Context, owner, id string) (conversation.File, error) {
		file, err := engine.ParseID(id)
		if err != nil {
			return conversation.File{}, err
		}
		caller := engine.Caller{Owner: engine.Owner(owner)}
		f, err := store.GetFile(ctx, caller, file)
		if err != nil {
			return conversation.File{}, err
		}
		return uploaded(ctx, store, caller, f), nil
	}
}

// keptView has the files of a closed conversation that the next turn sends again, and the
// files that are no longer available.
type keptView struct {
	Again []conversation.File
	Gone  []conversation.Upload
	Local bool // they stay on this machine
}

func (p *askPage) kept(v *webRequest, c *conversation.Conversation) keptView {
	view := keptView{Local: c.Settings.Provider == provider.Local}
	view.Again, view.Gone = p.Live.Host.Again(v.Context(), c)
	return view
}
