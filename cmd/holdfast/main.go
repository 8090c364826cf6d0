package main

import (
	"context"
	"os"

	"holdfast/internal/app"
)

func main() {
	ctx, stop := app.StopOnSignal(context.Background())
	defer stop()
	code := run(ctx, process(), os.Args[1:])
	stop()
	os.Exit(code)
}
