package api

import (
	"context"
	"log/slog"
)

type loggerKey struct{}

// withLogger returns a context whose log lines carry the request's id.
func withLogger(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, log)
}

// logger returns the request's logger.
func logger(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok {
		return log
	}
	return slog.New(slog.DiscardHandler)
}
