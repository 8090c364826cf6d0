package main

import (
	"io"
	"log/slog"
)

// newLogger writes text for a person and JSON for machines, unless a setting says
// which.
func newLogger(out io.Writer, c logConfig, interactive bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level}
	if c.Format == "text" || (c.Format == "" && interactive) {
		return slog.New(slog.NewTextHandler(out, options))
	}
	return slog.New(slog.NewJSONHandler(out, options))
}
