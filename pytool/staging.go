package pytool

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

// candidate is a file of the chat that may be staged.
type candidate struct {
	file   ChatFile
	name   string // in the script's directory
	order  int    // in the chat: 0 is the oldest
	size   int64
	digest [sha256.Size]byte
	id     string // at the runner
	err    error
}

// stagedKey identifies equal uploads.
type stagedKey struct {
	name   string
	digest [sha256.Size]byte
}

// stagedIDs caches the ids of uploads. Services delete unused files, so that an entry may be
// stale: see forget.
type stagedIDs struct {
	mu  sync.Mutex
	ids map[stagedKey]string
}

// maxStagedIDs bounds the cache.
const maxStagedIDs = 4096

func (s *stagedIDs) get(k stagedKey) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[k]
}

func (s *stagedIDs) put(k stagedKey, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil || len(s.ids) >= maxStagedIDs {
		s.ids = map[stagedKey]string{}
	}
	s.ids[k] = id
}

func (s *stagedIDs) forget(files []*candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range files {
		delete(s.ids, stagedKey{c.name, c.digest})
	}
}

// stage uploads files of the chat for a script and returns them, oldest first. The notice
// names the files that the script does not get, and why.
func (t *Tool) stage(ctx context.Context, code string, files []ChatFile) (staged []*candidate, notice string) {
	wanted := prioritize(code, name(files))
	left := len(wanted) - min(len(wanted), t.cfg.MaxStagedFiles)
	wanted = wanted[:len(wanted)-left]

	var total int64
	var failed []*candidate
	for batch := range slices.Chunk(wanted, t.cfg.StagingConcurrency) {
		t.each(batch, func(c *candidate) { c.err = t.read(ctx, c) })
		for _, c := range batch {
			switch {
			case c.err != nil:
				failed = append(failed, c)
			case len(staged) > 0 && total+c.size > t.cfg.MaxStagedBytes:
				left++
			default:
				staged = append(staged, c)
				total += c.size
			}
		}
	}
	slices.SortFunc(staged, func(a, b *candidate) int { return a.order - b.order })
	t.each(staged, func(c *candidate) { c.err = t.upload(ctx, c) })
	staged = slices.DeleteFunc(staged, func(c *candidate) bool {
		if c.err != nil {
			failed = append(failed, c)
		}
		return c.err != nil
	})
	for _, c := range failed {
		t.log.WarnContext(ctx, "a file of the chat could not be staged", "file", c.file.ID, "error", c.err)
	}
	return staged, t.notice(left, len(files), failed)
}

func (t *Tool) notice(left, total int, failed []*candidate) string {
	var parts []string
	if left > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d session files were not staged due to per-execution limits (%d files / "+
			"%d bytes); files referenced in the code were prioritized.",
			left, total, t.cfg.MaxStagedFiles, t.cfg.MaxStagedBytes))
	}
	if len(failed) > 0 {
		slices.SortFunc(failed, func(a, b *candidate) int { return a.order - b.order })
		var names []string
		for _, c := range failed {
			names = append(names, c.name)
		}
		parts = append(parts, fmt.Sprintf("Failed to stage %d file(s): %s.", len(failed), strings.Join(names, ", ")))
	}
	return strings.Join(parts, " ")
}

// each calls f for the candidates concurrently and waits for all calls.
func (t *Tool) each(files []*candidate, f func(*candidate)) {
	var working errgroup.Group
	working.SetLimit(t.cfg.StagingConcurrency)
	for _, c := range files {
		working.Go(func() error {
			defer func() {
				if fault := recover(); fault != nil {
					c.err = fmt.Errorf("internal fault: %v", fault)
				}
			}()
			f(c)
			return nil
		})
	}
	_ = working.Wait() // each error is in its candidate
}

// read sets a file's size and digest. An upload reads the file again, so that no file is in
// memory.
func (t *Tool) read(ctx context.Context, c *candidate) error {
	content, err := t.store.Open(ctx, c.file.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	hash := sha256.New()
	if c.size, err = io.Copy(hash, content); err != nil {
		return err
	}
	hash.Sum(c.digest[:0])
	return nil
}

func (t *Tool) upload(ctx context.Context, c *candidate) error {
	key := stagedKey{c.name, c.digest}
	if c.id = t.staged.get(key); c.id != "" {
		return nil
	}
	content, err := t.store.Open(ctx, c.file.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	if c.id, err = t.runner.Upload(ctx, c.name, c.size, content); err != nil {
		return err
	}
	t.staged.put(key, c.id)
	return nil
}

// prioritize returns the candidates by priority: those that the code names, then the others,
// the newest first.
func prioritize(code string, files []*candidate) []*candidate {
	var named, others []*candidate
	for _, c := range slices.Backward(files) {
		if raw := c.file.Name; raw != "" && strings.Contains(code, raw) || strings.Contains(code, c.name) {
			named = append(named, c)
		} else {
			others = append(others, c)
		}
	}
	return append(named, others...)
}

// entry is the name of the script itself.
const entry = "__main__.py"

// name gives each file of the chat a unique name. It depends only on earlier files, so that
// it does not change while the chat continues.
func name(files []ChatFile) []*candidate {
	taken := map[string]bool{entry: true}
	candidates := make([]*candidate, len(files))
	for i, file := range files {
		plain := SafeName(file.Name)
		unique := plain
		for n := i; taken[unique]; n++ {
			ext := path.Ext(plain)
			unique = strings.TrimSuffix(plain, ext) + "_" + strconv.Itoa(n) + ext
		}
		taken[unique] = true
		candidates[i] = &candidate{file: file, name: unique, order: i}
	}
	return candidates
}

// The longest name, in characters and in bytes, with room for the number of a unique name.
const (
	maxNameChars = 200
	maxNameBytes = 240
)

// SafeName returns the name of a file of the chat in the sandbox: without folders, leading
// dots, and characters that are special in paths or shells. Joiners and direction marks stay,
// as names need them.
func SafeName(name string) string {
	var b strings.Builder
	replaced := false
	for _, r := range strings.ToValidUTF8(name, "_") {
		bad := strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' || r == 0x7f
		if bad && !replaced {
			b.WriteByte('_')
		} else if !bad {
			b.WriteRune(r)
		}
		replaced = bad
	}
	name = strings.Trim(strings.TrimSpace(b.String()), ".")
	if name == "" {
		return "file"
	}
	ext := path.Ext(name)
	if utf8.RuneCountInString(ext) > 20 {
		ext = ""
	}
	stem := firstChars(strings.TrimSuffix(name, ext), maxNameChars-utf8.RuneCountInString(ext))
	if most := maxNameBytes - len(ext); len(stem) > most {
		stem = strings.ToValidUTF8(stem[:most], "")
	}
	return stem + ext
}
