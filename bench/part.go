package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// partSetting carries a part's configuration to its process.
const partSetting = "BENCH_PART"

// part is what one baseline, or one half of a measurement, needs to know.
type part struct {
	Database string `json:"database,omitempty"`
	Broker   string `json:"broker,omitempty"`
	// Workers and Claim are the poller's.
	Workers int `json:"workers,omitempty"`
	Claim   int `json:"claim,omitempty"`
	// Addr, Path, Key and Streams are the listener's.
	Addr    string `json:"addr,omitempty"`
	Path    string `json:"path,omitempty"`
	Key     string `json:"key,omitempty"`
	Streams int    `json:"streams,omitempty"`
}

// runBaseline does the work of one part in this process, until ctx or in ends. The bench
// starts them: each has a process of its own, so that its memory and its garbage
// collector are its own.
func runBaseline(ctx context.Context, name, config string, in io.Reader, out io.Writer) error {
	var p part
	if err := json.Unmarshal([]byte(config), &p); err != nil {
		return fmt.Errorf("read %s: %w", partSetting, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	switch name {
	case "baseline":
		return p.runBaseline(ctx, out)
	case "poller":
		return p.runPoller(ctx, out)
	case "bare-streams":
		return serveUntil(ctx, out, newBareStreams())
	case "listener":
		return p.runListener(ctx, out)
	default:
		return fmt.Errorf("no part is called %q", name)
	}
}

// startPart starts a part; it ends with the figure.
func (l *env) startPart(name string, p part) (*server, error) {
	config, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return l.startServer(l.o.Self, []string{"--part", name}, []string{partSetting + "=" + string(config)})
}

// startBaseline starts the bare server on a fresh database.
func (l *env) startBaseline(broker string) (*server, error) {
	database, err := l.copyOf(baselineTemplate)
	if err != nil {
		return nil, err
	}
	s, err := l.startPart("baseline", part{Database: l.url(database), Broker: broker})
	if err != nil {
		return nil, err
	}
	s.database = database
	return s, nil
}

func (p part) runBaseline(ctx context.Context, out io.Writer) error {
	f, err := newBaseline(ctx, p.Database, p.Broker)
	if err != nil {
		return err
	}
	defer f.pool.Close()
	return serveUntil(ctx, out, f.handler())
}

// serveUntil serves on a free port, says which, and ends with ctx.
func serveUntil(ctx context.Context, out io.Writer, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	say(out, "listening", listener.Addr().String())
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// say writes a line as the product's log does.
func say(out io.Writer, message, addr string) {
	line, _ := json.Marshal(map[string]string{"msg": message, "addr": addr})
	fmt.Fprintf(out, "%s\n", line)
}

// runtimeMetrics are what the product tells of its process too.
func runtimeMetrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
