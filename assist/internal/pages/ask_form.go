package pages

import (
	"cmp"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

const maxPrompt = 1 << 20

// promptForm is the form of a turn.
type promptForm struct {
	askForm
	Text    string
	See     bool // show pictures to the model itself
	Propose bool // replies may propose changes of the project's files
	Policy  *workspace.Policy
	Files   []conversation.File
	Paths   []string // of files in the project's folder
}

// readPrompt reads the form of a turn, and returns the prompt that it asks for.
func (p *askPage) readPrompt(v *page.Request) (f *promptForm, prompt conversation.Prompt, err error) {
	f = &promptForm{}
	if err := v.EachPart(func(part *multipart.Part) error { return p.readPromptPart(v, part, f) }); err != nil {
		return nil, prompt, err
	}
	switch {
	case strings.TrimSpace(f.Text) == "":
		return nil, prompt, page.Refuse(http.StatusBadRequest, "There is no prompt.", "Say what the model is to do.")
	case len(f.Files)+len(f.Paths) > page.MaxInputs:
		return nil, prompt, page.Refuse(http.StatusBadRequest, "A turn takes at most 256 files.",
			"Pack them into an archive.")
	}
	prompt, err = p.prompt(v, f)
	return f, prompt, err
}

func (p *askPage) readPromptPart(v *page.Request, part *multipart.Part, f *promptForm) error {
	if part.FormName() == "upload" {
		return p.storeUpload(v, part, f)
	}
	most := int64(page.MaxField)
	if name := part.FormName(); name == "prompt" || name == "paths" || name == "policy" || name == "instructions" {
		most = maxPrompt
	}
	text, err := page.Field(part, most)
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
		return p.addStored(v, text, f)
	}
	return nil
}

// storeUpload stores a file of a form at the service, if one was chosen, and adds it.
func (p *askPage) storeUpload(v *page.Request, part *multipart.Part, f *promptForm) error {
	if part.FileName() == "" {
		return nil
	}
	service := p.Client(v.Owner())
	defer service.Close()
	stored, err := service.Upload(v.Context(), part.FileName(), part, 0)
	if err != nil {
		return err
	}
	return p.addStored(v, stored.ID, f)
}

// addStored adds a file that was stored before.
func (p *askPage) addStored(v *page.Request, id string, f *promptForm) error {
	file, err := p.Stored(v.Context(), v.Owner(), id)
	if err != nil && page.Describe(err).Status == http.StatusNotFound {
		return page.Refuse(http.StatusNotFound, "One of the input files is gone: it was deleted or has expired.",
			"Take it out of the list, or add it again.")
	}
	if err != nil {
		return err
	}
	f.Files = append(f.Files, file)
	return nil
}

// settings returns the settings of a new conversation.
func (p *askPage) settings(v *page.Request, f *promptForm) (conversation.Settings, error) {
	s := p.Settings
	asked, err := p.modelOf(v, f.Provider)
	if err != nil {
		return s, err
	}
	s.Provider, s.ModelURL, s.Model, s.Instructions = asked.Provider, asked.URL, f.Model, f.Instructions
	if s.Model == "" {
		return s, page.Refuse(http.StatusBadRequest, "No model was named.", "Write the name that its provider has for it.")
	}
	switch s.Tool = provider.Tool(f.Tool); s.Tool {
	case "":
		s.Tool = provider.ToolAuto
	case provider.ToolAuto, provider.ToolPython, provider.ToolShell, provider.ToolNone:
	default:
		return s, page.Refuse(http.StatusBadRequest, "There is no such tool.", "Choose one from the list.")
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
func (p *askPage) project(v *page.Request, name string) (changes.Link, error) {
	projects, err := p.Projects(v.Context(), v.Owner())
	if err != nil {
		return changes.Link{}, err
	}
	if at := slices.IndexFunc(projects, func(l changes.Link) bool { return l.Project == name }); at >= 0 {
		return projects[at], nil
	}
	return changes.Link{}, page.Refuse(http.StatusNotFound, "The project "+name+
		" is not linked with a folder that this service was given.", "Link it again, or choose another one.")
}

// prompt returns the prompt that a form asks for.
func (p *askPage) prompt(v *page.Request, f *promptForm) (conversation.Prompt, error) {
	prompt := conversation.Prompt{Text: f.Text}
	for _, file := range f.Files {
		file.See = f.See
		prompt.Files = append(prompt.Files, file)
	}
	if f.Project == "" {
		if len(f.Paths) > 0 {
			return prompt, page.Refuse(http.StatusBadRequest, "Files of a project were named, and no project.",
				"Choose the project.")
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
			return prompt, page.Refuse(http.StatusBadRequest, "This file of the project cannot be given: "+err.Error()+".",
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
func (p *askPage) folder(w http.ResponseWriter, v *page.Request) error {
	link, err := p.project(v, v.PathValue("project"))
	if err != nil {
		return err
	}
	at := cmp.Or(v.URL.Query().Get("at"), ".")
	body := folderView{Project: link.Project, Path: at}
	if body.Entries, body.More, err = conversation.ListFolder(link.Root, at); err != nil {
		return page.Refuse(http.StatusNotFound, "This folder cannot be shown: "+err.Error()+".", "")
	}
	if at != "." {
		body.Parent = path.Dir(at)
	}
	return p.SendPart(w, v, "ask", "folder", body)
}

// keptView has the files of a closed conversation that the next turn sends again, and the
// files that are no longer available.
type keptView struct {
	Again []conversation.File
	Gone  []conversation.Upload
	Local bool // they stay on this machine
}

func (p *askPage) kept(v *page.Request, c *conversation.Conversation) keptView {
	view := keptView{Local: c.Settings.Provider == provider.Local}
	view.Again, view.Gone = p.Live.Host.Again(v.Context(), c)
	return view
}
