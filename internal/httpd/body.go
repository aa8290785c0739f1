package httpd

import "net/http"

// limitBody bounds what a mount can be made to read. A length that is announced
// is refused at once; one that is not is found out by the handler, whose read
// fails with *http.MaxBytesError. Compressed bodies are refused, for their real
// size shows too late, unless the mount sees to that.
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
