package oci

import "context"

// CanonicalReference returns a source as images have it in their Reference.
func CanonicalReference(reference string) (string, error) {
	from, err := parseSource(reference)
	if err != nil {
		return "", err
	}
	return from.String(), nil
}

// Resolve returns the id of the image that a source has now.
func (s *Store) Resolve(ctx context.Context, reference string) (id string, err error) {
	from, err := parseSource(reference)
	if err != nil {
		return "", err
	}
	w, err := s.newWork()
	if err != nil {
		return "", err
	}
	defer w.end()
	o, err := s.open(ctx, from, w.path)
	if err != nil {
		return "", err
	}
	o.close()
	return o.id, nil
}
