package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"holdfast/internal/httpserver"
)

// requestIDForm is what a request id of a client's or a proxy's may look like; any
// other is replaced, so that it can do no harm in a log.
var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

const requestIDHeader = "X-Request-Id"

// notes is what inner layers tell the access log.
type notes struct {
	keyID string
}

type notesKey struct{}

func notesOf(ctx context.Context) *notes {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		return n
	}
	return &notes{}
}

// identify gives each request an id, which its log lines and its answer carry.
func (a *api) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !requestIDForm.MatchString(id) {
			id = rand.Text()
		}
		w.Header().Set(requestIDHeader, id)
		ctx := withRequest(r.Context(), a.Log, slog.String("request_id", id), slog.String("client_addr", httpserver.ClientAddr(r)))
		ctx = context.WithValue(ctx, notesKey{}, &notes{})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// observe writes the one line and counts the one time of each request. It stands
// outside of recover, so that a panic is a 500 in both.
func (a *api) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			took := time.Since(start)
			code := statusOf(wrapped)
			route := routeOf(r)
			a.Observer.HTTPRequest(route, methodLabel(r.Method), code, took)
			logger(r.Context()).LogAttrs(r.Context(), slog.LevelInfo, "http request",
				slog.String("method", methodLabel(r.Method)), slog.String("route", route), slog.String("path", r.URL.Path),
				slog.Int("status_code", code), slog.Int("bytes", wrapped.BytesWritten()),
				slog.Float64("duration_ms", float64(took.Microseconds())/1000),
				slog.String("key_id", notesOf(r.Context()).keyID))
		}()
		next.ServeHTTP(wrapped, r)
	})
}

func statusOf(w middleware.WrapResponseWriter) int {
	if w.Status() == 0 {
		return http.StatusOK
	}
	return w.Status()
}

func routeOf(r *http.Request) string {
	if pattern := chi.RouteContext(r.Context()).RoutePattern(); pattern != "" {
		return pattern
	}
	return "unknown"
}

// methodLabel bounds what a client can make up.
func methodLabel(method string) string {
	for _, known := range methods {
		if method == known {
			return method
		}
	}
	return "OTHER"
}

// recover makes a panic a 500 that tells nothing of the inside. A purchase whose broker
// call was in progress is left to the sweep, as if the process had died.
func (a *api) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(cause)
			}
			a.answerPanic(w, r, cause)
		}()
		next.ServeHTTP(w, r)
	})
}

func (a *api) answerPanic(w http.ResponseWriter, r *http.Request, cause any) {
	logger(r.Context()).LogAttrs(r.Context(), slog.LevelError, "handler panicked",
		slog.String("panic", fmt.Sprint(cause)), slog.String("stack", string(debug.Stack())))
	if wrapped, ok := w.(middleware.WrapResponseWriter); ok && wrapped.Status() != 0 {
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	}
	refuse(w, r, because(internalError, "the request could not be handled; its X-Request-Id names it"))
}

// secureHeaders forbids a browser everything that JSON does not need; a page that needs
// more says so itself.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}
