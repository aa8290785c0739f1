package command

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unicode/utf8"
)

// AsUTF8 is the hint for a text that is not UTF-8.
const AsUTF8 = "save it as UTF-8, or convert it: `iconv -f LATIN1 -t UTF-8 FILE`"

// TextOf returns a text for a request. JSON would replace bytes that are not UTF-8.
func TextOf(name string, content []byte, hint string) (string, error) {
	if !utf8.Valid(content) {
		if name == "-" {
			name = "standard input"
		}
		return "", Fail(ExitUsage, hint, "%s is not UTF-8", PrintableName(name))
	}
	return string(content), nil
}

// MaxText bounds what is read into memory. The service has its own limits.
const MaxText = 16 << 20

func (a *App) Read(name string) ([]byte, error) {
	from := a.Streams.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, Unreadable(name, err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, MaxText+1))
	if err != nil {
		return nil, Unreadable(name, err)
	}
	if len(text) > MaxText {
		return nil, Fail(ExitRefused, "hand large inputs over with -f", "%s is larger than 16 MiB", name)
	}
	return text, nil
}

// Unreadable returns the error of a file that cannot be read.
func Unreadable(name string, err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		err = pathErr.Err
	}
	return Fail(ExitUsage, "", "%s cannot be read: %w", name, err)
}

// ReadableFolder returns an error if a folder that a flag names cannot be read, or is none.
func ReadableFolder(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return Unreadable(name, err)
	}
	return nil
}

// Interrupted returns err, or the error of a command that the user ended.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &Failure{Code: ExitFailed, Word: "interrupted", Err: errors.New("interrupted"),
			Hint: "the program was stopped"}
	}
	return err
}

// FileOf returns a stream as a file, or nil.
func FileOf(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}

// ReplaceFile replaces a file atomically.
func ReplaceFile(name string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".airlock-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
