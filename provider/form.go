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

// Form is a multipart body with one file, its last part: some servers want
// everything else to come before it. The file is streamed; the length is -1 when
// the upload's size is not known. (The official SDKs for Go hold the whole body
// in memory.)
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

// quoted is how browsers write names into a form: quotes and line ends escaped.
func quoted(s string) string {
	return strings.NewReplacer("\r", "%0D", "\n", "%0A", `"`, "%22").Replace(s)
}

// Reader is the content, which tells Progress how much of it was read.
func (u Upload) Reader() io.Reader {
	if u.Progress == nil {
		return u.Body
	}
	return &told{from: u.Body, tell: u.Progress}
}

type told struct {
	from io.Reader
	tell func(int64)
	sent int64
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	if t.sent += int64(n); n > 0 {
		t.tell(t.sent)
	}
	return n, err
}
