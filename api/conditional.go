package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"holdfast/auth"
	"holdfast/purchase"
)

// answerTagged answers a purchase with an ETag made of the very bytes, so that it
// changes whenever anything of the representation does, or 304 where the client has it.
func (a *api) answerTagged(w http.ResponseWriter, r *http.Request, p purchase.Purchase) error {
	body, err := encode(a.represent(p, auth.From(r.Context())))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	h.Add("Vary", "Authorization")
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	answerBytes(w, http.StatusOK, body)
	return nil
}

// matches compares weakly, as RFC 9110 asks of If-None-Match.
func matches(headers []string, tag string) bool {
	for _, header := range headers {
		for _, candidate := range strings.Split(header, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == "*" || candidate == tag {
				return true
			}
		}
	}
	return false
}
