package engine

import (
	"context"
	"path"
	"slices"
)

// mostDepth is the depth of folders in which a workspace is compared with what is stored.
const mostDepth = 100

// MissingFiles compares the workspace of a live session with what is stored of it, and returns the paths of the stored
// files that are not there.
func (s *Service) MissingFiles(ctx context.Context, session Session) (missing []string, err error) {
	const op = "compare files"
	files, places, err := s.index.SessionFiles(ctx, session.Owner, session.ID)
	if err != nil {
		return nil, failure(op, session.ID.String(), err)
	}
	at := s.sandbox.Files(session.ID)
	entries, more, err := at.List(ctx, ".", mostDepth)
	if err != nil {
		return nil, failure(op, session.ID.String(), err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[path.Clean(e.Path)] = true
	}
	for i, place := range places {
		if place.Path == TreeMark || place.Path == MemoryMark || there[place.Path] ||
			!s.touches.expiry(files[i].life()).After(s.now()) {
			continue
		}
		if more { // than one list has
			if _, err := at.Stat(ctx, place.Path); err == nil {
				continue
			} else if KindOf(err) != ErrNotFound {
				return nil, failure(op, session.ID.String(), err)
			}
		}
		missing = append(missing, place.Path)
	}
	slices.Sort(missing)
	return missing, nil
}
