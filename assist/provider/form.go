package provider

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"strings"
)

// Field is a field of a form.
type Field struct{ Name, Value string }

// Form returns a multipart body with one file as its last part: some servers need all
// fields before it. The file is streamed; the length is -1 if the upload's size is not
// known. (The official SDKs for Go hold the whole body in memory.)
func Form(fields []Field, fileField string, u Upload) (body io.Reader, contentType string, length int64, err error) {
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	for _, f := range fields {
		if err := w.WriteField(f.Name, f.Value); err != nil {
			return nil, "", 0, err
		}
	}
	kind := cmp.Or(u.MIME, "application/octet-stream")
	_, err = w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {fmt.Sprintf(`form-data; name="%s"; filename="%s"`, quoted(fileField), quoted(u.Name))},
		"Content-Type":        {quoted(kind)},
	})
	if err != nil {
		return nil, "", 0, err
	}
	tail := "\r\n--" + w.Boundary() + "--\r\n"
	length = -1
	if u.Size >= 0 {
		length = int64(head.Len()) + u.Size + int64(len(tail))
	}
	return io.MultiReader(&head, u.Reader(), strings.NewReader(tail)), w.FormDataContentType(), length, nil
}

// quoted escapes quotes and line ends in a name as browsers do.
func quoted(s string) string {
	return strings.NewReplacer("\r", "%0D", "\n", "%0A", `"`, "%22").Replace(s)
}

// Reader returns the body; it calls Progress with the bytes read.
func (u Upload) Reader() io.Reader {
	if u.Progress == nil {
		return u.Body
	}
	return &progressReader{upload: u}
}

type progressReader struct {
	upload Upload
	sent   int64
}

func (r *progressReader) Read(p []byte) (int, error) {
	n, err := r.upload.Body.Read(p)
	if r.sent += int64(n); n > 0 {
		r.upload.Progress(r.sent)
	}
	return n, err
}
