package web

import "net/http"

// policy lets a page load our own files and nothing else. There is no script
// in any document; the editor's styles are made by its script and bear the
// nonce of the document.
func policy(nonce string) string { return policyWith(nonce, "'self'", "") }

// policyWith is policy for a page that shows pictures from elsewhere than our files too,
// and has further directives.
func policyWith(nonce, images, more string) string {
	styles := "style-src 'self'"
	if nonce != "" {
		styles += " 'nonce-" + nonce + "'"
	}
	return "default-src 'none'; script-src 'self'; " + styles + "; img-src " + images + "; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'" + more
}

// secure sets what every answer of the page says, until a handler that knows
// better says something else.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy(""))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
}
