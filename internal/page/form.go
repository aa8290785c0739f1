package page

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
)

// Bounds of forms.
const (
	MaxField  = 4 << 10 // bytes of a field
	MaxInputs = 256     // files of a program or a turn
)

var errForm = Refuse(http.StatusBadRequest, "This form could not be read to its end.",
	"Send it again; if the connection broke, the files have to be chosen again.")

// partToken reads the token of a form that may have files: its first field.
func (v *Request) partToken() (string, error) {
	part, err := v.nextPart()
	switch {
	case errors.Is(err, io.EOF):
		return "", nil
	case err != nil:
		return "", err
	case part.FormName() != "token":
		return "", nil
	}
	return Field(part, MaxField)
}

// nextPart returns the next part of a form, or io.EOF.
func (v *Request) nextPart() (*multipart.Part, error) {
	if v.parts == nil {
		parts, err := v.MultipartReader()
		if err != nil {
			return nil, errForm
		}
		v.parts = parts
	}
	part, err := v.parts.NextPart()
	if err != nil && !errors.Is(err, io.EOF) {
		err = FormError(err)
	}
	return part, err
}

// EachPart calls do for each part of a form that may have files. Its token was checked.
func (v *Request) EachPart(do func(*multipart.Part) error) error {
	for {
		part, err := v.nextPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case part.FormName() == "token": // beside the header's
		default:
			if err := do(part); err != nil {
				return err
			}
		}
	}
}

// Field reads a text field of a form.
func Field(part io.Reader, most int64) (string, error) {
	text, err := io.ReadAll(io.LimitReader(part, most+1))
	if err != nil {
		return "", FormError(err)
	}
	if int64(len(text)) > most {
		return "", Refuse(http.StatusRequestEntityTooLarge, "A field of this form has more than "+ByteCount(most)+".",
			"Put large input into a file.")
	}
	return string(text), nil
}

// FormError returns the error of the body's limit, or errForm.
func FormError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return errForm
}
