package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// writeDocument replaces the tables of the document, which are between marks:
// <!-- bench:goals --> and <!-- /bench:goals -->. It keeps the rest.
func (r *Results) writeDocument(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), r.blocks())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(filled), 0o644)
}

// writeSections replaces the tables of some sections only: the others are of another run.
func (r *Results) writeSections(name string, sections []string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	blocks := map[string]string{}
	for section, block := range r.blocks() {
		if slices.Contains(sections, section) {
			blocks[section] = block + fmt.Sprintf("These are of a run of this section alone, `make bench ARGS='-only %s'`, on %s.\n",
				section, r.At.Format("2 January 2006"))
		}
	}
	filled, err := fill(string(text), blocks)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(filled), 0o644)
}

// fill puts each block between its marks. A block without marks is an error:
// the document would keep figures of another run, or be silent about some.
func fill(document string, blocks map[string]string) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		begin, end := "<!-- bench:"+name+" -->\n", "<!-- /bench:"+name+" -->"
		before, rest, found := strings.Cut(document, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			return "", errors.New("it has no " + strings.TrimSpace(begin) + " with its end")
		}
		document = before + begin + blocks[name] + end + after
	}
	return document, nil
}
