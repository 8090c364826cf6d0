package console

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
)

// wayBack ends River's pages, which know nothing of the console.
const wayBack = `<a href="/console/" style="position:fixed;right:1rem;bottom:1rem;z-index:99;padding:.4rem .9rem;border-radius:6px;background:#2457c5;color:#fff;font:14px system-ui,sans-serif">Back to Holdfast</a></body>`

// riverWriter holds one of River's pages back until the way back stands in it.
type riverWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *riverWriter) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

func (w *riverWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

func (w *riverWriter) send() {
	body, status := w.body.Bytes(), cmp.Or(w.status, http.StatusOK)
	if status == http.StatusOK && strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		body = bytes.Replace(body, []byte("</body>"), []byte(wayBack), 1)
		w.Header().Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
	w.ResponseWriter.Write(body)
}

// uncached sets our headers when the response begins: River's file server removes those set
// before when it falls back to its start page.
type uncached struct {
	http.ResponseWriter
	began bool
}

func (w *uncached) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *uncached) WriteHeader(status int) {
	w.began = true
	w.Header().Set("Content-Security-Policy", riverPolicy)
	w.Header().Set("Cache-Control", "no-store")
	w.ResponseWriter.WriteHeader(status)
}

func (w *uncached) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
