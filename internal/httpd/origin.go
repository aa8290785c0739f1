package httpd

import "net/http"

// refuseForeignOrigin refuses changes by a page of another site in a user's browser.
// Browsers send the origin of a request. Other clients send none, and pass.
func refuseForeignOrigin(mounts []Mount, next http.Handler) http.Handler {
	var protection http.CrossOriginProtection
	for _, m := range mounts {
		for _, path := range m.AnyOrigin {
			protection.AddInsecureBypassPattern(m.Prefix + path)
		}
	}
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusForbidden, "forbidden", "a request from another site's page may not change anything here")
	}))
	return protection.Handler(next)
}
