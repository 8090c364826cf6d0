package api

import (
	"context"
	"log/slog"
)

type requestKey struct{}

// request is what each log line of a request carries, and where those of the API go.
type requestLog struct {
	log   *slog.Logger
	attrs []slog.Attr
}

func withRequest(ctx context.Context, log *slog.Logger, attrs ...slog.Attr) context.Context {
	return context.WithValue(ctx, requestKey{}, &requestLog{log, attrs})
}

// logger returns the request's logger. Its lines must be logged with the request's context.
func logger(ctx context.Context) *slog.Logger {
	if r, ok := ctx.Value(requestKey{}).(*requestLog); ok {
		return r.log
	}
	return slog.New(slog.DiscardHandler)
}

// LogRequests returns a log that adds the request id and the client's address to each line
// that is logged with a request's context, whichever package logs it. A log that does so
// already is returned as it is.
func LogRequests(log *slog.Logger) *slog.Logger {
	if _, done := log.Handler().(requestHandler); done {
		return log
	}
	return slog.New(requestHandler{log.Handler()})
}

type requestHandler struct{ slog.Handler }

func (h requestHandler) Handle(ctx context.Context, record slog.Record) error {
	if r, ok := ctx.Value(requestKey{}).(*requestLog); ok {
		record.AddAttrs(r.attrs...)
	}
	return h.Handler.Handle(ctx, record)
}

func (h requestHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestHandler{h.Handler.WithAttrs(attrs)}
}

func (h requestHandler) WithGroup(name string) slog.Handler {
	return requestHandler{h.Handler.WithGroup(name)}
}
