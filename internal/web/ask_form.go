package web

import (
	"cmp"
	"errors"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

const maxPrompt = 1 << 20

// promptForm is what the user has sent to a model.
type promptForm struct {
	askForm
	Text    string
	See     bool // show pictures to the model itself
	Propose bool // replies may propose changes of the project's files
	Policy  *workspace.Policy
	Files   []engine.File
	Paths   []string // of files in the project's folder
}

// readPrompt reads the form of a turn.
func (p *askPage) readPrompt(v *webRequest) (*promptForm, error) {
	f := &promptForm{}
	if err := p.signIns.eachPart(v, func(part *multipart.Part) error { return p.readPromptPart(v, part, f) }); err != nil {
		return nil, err
	}
	switch {
	case strings.TrimSpace(f.Text) == "":
		return nil, refuse(http.StatusBadRequest, "There is no prompt.", "Say what the model is to do.")
	case len(f.Files)+len(f.Paths) > maxInputs:
		return nil, refuse(http.StatusBadRequest, "A turn takes at most 256 files.", "Pack them into an archive.")
	}
	return f, nil
}

func (p *askPage) readPromptPart(v *webRequest, part *multipart.Part, f *promptForm) error {
	if part.FormName() == "upload" {
		if part.FileName() == "" {
			return nil // no file was chosen
		}
		stored, err := p.Engine.PutFile(v.Context(), v.caller, engine.Upload{
			Name: part.FileName(), Origin: engine.OriginNative}, part)
		f.Files = append(f.Files, stored)
		return err
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
		return p.addFile(v, f, text)
	}
	return nil
}

// addFile adds a file that is in the store already.
func (p *askPage) addFile(v *webRequest, f *promptForm, text string) error {
	id, err := engine.ParseID(text)
	if err != nil {
		return engine.ErrNotFound
	}
	file, err := p.Engine.GetFile(v.Context(), v.caller, id)
	if errors.Is(err, engine.ErrNotFound) {
		return refuse(http.StatusNotFound, "One of the files is gone: it was deleted or has expired.",
			"Take it out of the list, or add it again.")
	}
	f.Files = append(f.Files, file)
	return err
}

// settings are those of a new conversation.
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

// project is one that the visitor may use.
func (p *askPage) project(v *webRequest, name string) (conversation.Link, error) {
	projects, err := p.Projects(v.Context(), p.owner(v))
	if err != nil {
		return conversation.Link{}, err
	}
	for _, l := range projects {
		if l.Project == name {
			return l, nil
		}
	}
	return conversation.Link{}, refuse(http.StatusNotFound, "The project "+name+
		" is not linked with a folder that this service was given.", "Link it again, or choose another one.")
}

// prompt is the turn that a form asks for.
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

// folder lists a folder of a project, to choose files from.
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
		body.Parent = "."
		if cut := strings.LastIndexByte(at, '/'); cut > 0 {
			body.Parent = at[:cut]
		}
	}
	text, err := p.part("folder", body)
	if err != nil {
		return err
	}
	p.send(w, v, http.StatusOK, []byte(text))
	return nil
}
