package httpd

import "net/http"

// limitBody bounds the body of a request. A Content-Length over the limit is refused at
// once; without one, the handler's read fails with *http.MaxBytesError. Compressed bodies
// are refused, because their size is not known, unless the mount bounds it.
func limitBody(m Mount, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" && (m.Compressed == nil || !m.Compressed(r)) {
			m.refuse(w, r, http.StatusUnsupportedMediaType, "unsupported_media_type", "compressed bodies are not accepted")
			return
		}
		if r.ContentLength > m.MaxBody {
			hangUp(w, r)
			m.refuse(w, r, http.StatusRequestEntityTooLarge, "too_large", "the body is over the limit of this address")
			return
		}
		if r.Body != nil {
			r = withBody(r, http.MaxBytesReader(w, r.Body, m.MaxBody))
		}
		next.ServeHTTP(w, r)
	})
}
