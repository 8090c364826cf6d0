package app

import (
	"io"
	"log/slog"

	"holdfast/internal/config"
)

// NewLogger returns a logger that writes text if interactive and JSON otherwise, unless a
// setting says which.
func NewLogger(out io.Writer, c config.Log, interactive bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level}
	if c.Format == "text" || (c.Format == "" && interactive) {
		return slog.New(slog.NewTextHandler(out, options))
	}
	return slog.New(slog.NewJSONHandler(out, options))
}
