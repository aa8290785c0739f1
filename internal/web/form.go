package web

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	maxCode   = 17 << 20 // the engine has its own, lower bound and better words
	maxStdin  = 11 << 20 // as above
	maxField  = 4 << 10
	maxInputs = 256
)

var errForm = refuse(http.StatusBadRequest, "This form could not be read to its end.",
	"Send it again; if the connection broke, the files have to be chosen again.")

// eachPart gives the parts of a form that may have files. Files are stored as
// they come, but only once the token was there and right: it is the first field.
func (s *signInStore) eachPart(v *webRequest, do func(*multipart.Part) error) error {
	form, err := v.MultipartReader()
	if err != nil {
		return errForm
	}
	trusted := s.holds(v.cookie, v.Header.Get(tokenHeader))
	for {
		part, err := form.NextPart()
		switch {
		case err == io.EOF && !trusted:
			return errToken
		case err == io.EOF:
			return nil
		case err != nil:
			return formError(err)
		case part.FormName() == "token":
			token, err := field(part, maxField)
			if err != nil {
				return err
			}
			trusted = trusted || s.holds(v.cookie, token)
		case !trusted:
			return errToken
		default:
			if err := do(part); err != nil {
				return err
			}
		}
	}
}

// readForm reads the form of the run page.
func (p *runPage) readForm(v *webRequest) (*source, error) {
	src := &source{}
	if err := p.signIns.eachPart(v, func(part *multipart.Part) error { return p.readPart(v, part, src) }); err != nil {
		return nil, err
	}
	if strings.TrimSpace(src.Code) == "" {
		return nil, refuse(http.StatusBadRequest, "There is no code to run.", "Write some, or choose a run from the history.")
	}
	defaults, _ := p.Engine.Limits()
	src.Memory = defaults.Memory
	if src.Timeout == 0 {
		src.Timeout = int(defaults.Timeout.Seconds())
	}
	return src, nil
}

func (p *runPage) readPart(v *webRequest, part *multipart.Part, src *source) error {
	if part.FormName() == "upload" {
		if part.FileName() == "" {
			return nil // no file was chosen
		}
		stored, err := p.Engine.PutFile(v.Context(), v.caller, engine.Upload{
			Name: part.FileName(), Origin: engine.OriginNative}, part)
		if err != nil {
			return err
		}
		return src.add(stored)
	}
	text, err := field(part, fieldLimit(part.FormName()))
	if err != nil {
		return err
	}
	switch part.FormName() {
	case "language":
		src.Language = text
	case "code":
		src.Code = strings.ReplaceAll(text, "\r\n", "\n") // browsers send forms that way
	case "stdin":
		src.Stdin = strings.ReplaceAll(text, "\r\n", "\n")
	case "network":
		src.Network = text
	case "timeout":
		return src.setTimeout(text)
	case "file":
		return p.addStored(v.Context(), v.caller, src, text)
	}
	return nil
}

func fieldLimit(name string) int64 {
	switch name {
	case "code":
		return maxCode
	case "stdin":
		return maxStdin
	}
	return maxField
}

func (s *source) setTimeout(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return refuse(http.StatusBadRequest, "The time limit must be a whole number of seconds, 1 or more.", "")
	}
	s.Timeout = n
	return nil
}

// addStored adds a file that is in the store already.
func (p *runPage) addStored(ctx context.Context, caller engine.Caller, src *source, text string) error {
	id, err := engine.ParseID(text)
	if err != nil {
		return engine.ErrNotFound
	}
	file, err := p.Engine.GetFile(ctx, caller, id)
	if errors.Is(err, engine.ErrNotFound) {
		return refuse(http.StatusNotFound, "One of the input files is gone: it was deleted or has expired.",
			"Take it out of the list, or add it again.")
	}
	if err != nil {
		return err
	}
	return src.add(file)
}

func (s *source) add(f engine.File) error {
	if len(s.Files) >= maxInputs {
		return refuse(http.StatusBadRequest, "A program takes at most 256 input files.", "Pack them into an archive.")
	}
	s.Files = append(s.Files, input{f.ID.String(), f.Name, f.Size})
	return nil
}

// field reads a text field of a form.
func field(part io.Reader, most int64) (string, error) {
	text, err := io.ReadAll(io.LimitReader(part, most+1))
	if err != nil {
		return "", formError(err)
	}
	if int64(len(text)) > most {
		return "", refuse(http.StatusRequestEntityTooLarge, "A field of this form has more than "+byteCount(most)+".",
			"Put large input into a file.")
	}
	return string(text), nil
}

// formError lets the limit of the body speak for itself.
func formError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return errForm
}
