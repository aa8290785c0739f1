package onyx

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxParts = 1000    // of a form
	maxField = 1 << 20 // bytes of a part that is not a file
)

const fileField = "file"

// readForm finds the file of a form. Its bytes are still to be read.
func readForm(r *http.Request) (name string, content *formFile, err error) {
	mediaType, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != "multipart/form-data" {
		return "", nil, noPart()
	}
	if params["boundary"] == "" {
		return "", nil, wire.Refuse(http.StatusBadRequest, "Missing boundary in multipart.")
	}
	form := multipart.NewReader(r.Body, params["boundary"])
	for range maxParts {
		part, err := form.NextRawPart()
		if err == io.EOF {
			return "", nil, noPart()
		}
		if err != nil {
			return "", nil, brokenForm(err)
		}
		field, file, isFile := partName(part.Header.Get("Content-Disposition"))
		if field == fileField && isFile {
			return file, &formFile{part: part, form: form, body: r.Body}, nil
		}
		if err := skipField(part, field); err != nil {
			return "", nil, err
		}
	}
	return "", nil, wire.Refuse(http.StatusBadRequest, "Too many parts in the form.")
}

func noPart() error {
	return wrong(problem{Type: "missing", Loc: []any{bodyLoc, fileField}, Msg: "Field required"})
}

// skipField reads past a part that is no file. A text where the file should be
// is told from one that is missing.
func skipField(part *multipart.Part, field string) error {
	text, err := io.ReadAll(io.LimitReader(part, maxField+1))
	switch {
	case err != nil:
		return brokenForm(err)
	case len(text) > maxField:
		return wire.Refuse(http.StatusBadRequest, "Part exceeded maximum size of 1024KB.")
	case field == fileField:
		return wrong(problem{
			Type: "value_error", Loc: []any{bodyLoc, fileField},
			Msg:   "Value error, Expected UploadFile, received: <class 'str'>",
			Input: value{kind: isString, text: string(text)}, Ctx: `{"error":{}}`,
		})
	}
	return nil
}

// brokenForm lets the body limit speak for itself.
func brokenForm(err error) error {
	if wire.IsTooLarge(err) {
		return err
	}
	return errUnreadable
}

// formFile is the content of a form's file. It ends well only if the form
// does, so that a second file or a lost end is found out before the first is
// stored.
type formFile struct {
	part  *multipart.Part
	form  *multipart.Reader
	body  io.Reader
	end   error
	fault error // what was wrong with the form, in our words
}

func (f *formFile) Read(p []byte) (int, error) {
	if f.end != nil {
		return 0, f.end
	}
	n, err := f.part.Read(p)
	if err != nil {
		f.end = f.finish(err)
		if !errors.Is(f.end, io.EOF) {
			f.fault = f.end
		}
	}
	return n, f.end
}

func (f *formFile) finish(err error) error {
	if !errors.Is(err, io.EOF) {
		return brokenForm(err)
	}
	for range maxParts {
		part, err := f.form.NextRawPart()
		// Only a bare io.EOF is the closing boundary; a wrapped one is a form cut short.
		if err == io.EOF {
			if _, err := io.Copy(io.Discard, f.body); err != nil {
				return brokenForm(err)
			}
			return io.EOF
		}
		if err != nil {
			return brokenForm(err)
		}
		field, _, _ := partName(part.Header.Get("Content-Disposition"))
		if field == fileField {
			return unprocessable("The form has more than one part named 'file'.")
		}
		if err := skipField(part, field); err != nil {
			return err
		}
	}
	return wire.Refuse(http.StatusBadRequest, "Too many parts in the form.")
}

// partName reads a part's Content-Disposition.
func partName(header string) (field, file string, isFile bool) {
	params := wire.Disposition(header)
	file, isFile = params["filename"]
	if name, ok := wire.ExtendedName(params["filename*"]); ok {
		file, isFile = name, true
	}
	return params["name"], file, isFile
}

// plainName is an upload's name as we keep it. A name is data, and any is
// taken; what no file can be called, or would lead elsewhere when somebody takes
// it for a path, is replaced, and the answer says so.
func plainName(name string) string {
	if _, err := engine.CleanPath(name); err == nil {
		return name
	}
	name = strings.NewReplacer("\x00", "_", `\`, "_").Replace(strings.TrimLeft(strings.ToValidUTF8(name, "_"), "/"))
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if part == ".." {
			parts[i] = "_"
		}
		parts[i] = wire.ShortName(parts[i])
	}
	for _, candidate := range []string{strings.Join(parts, "/"), parts[len(parts)-1]} {
		if _, err := engine.CleanPath(candidate); err == nil {
			return candidate
		}
	}
	return "unnamed"
}
