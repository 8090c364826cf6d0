package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startPatience bounds a start, stopPatience a stop in good order.
	startPatience = 60 * time.Second
	stopPatience  = 30 * time.Second
	startPoll     = 10 * time.Millisecond
)

// server is a process that serves HTTP: the product, or a baseline.
type server struct {
	cmd      *exec.Cmd
	log      string
	addr     string
	database string
	ended    chan struct{}
	// stdin, where there is one, ends a baseline when it closes, even if the bench dies.
	stdin io.WriteCloser
}

// startServer starts the program and waits until its log says where it listens. It dies
// with the figure, without ceremony: so does its database.
func (l *env) startServer(program string, args, settings []string) (*server, error) {
	s := &server{log: fmt.Sprintf("%s/server-%d.log", l.dir, l.counter.Add(1)), ended: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	s.cmd = exec.Command(program, args...)
	s.cmd.Env = slices.Concat(l.o.Environ, settings)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	l.onEnd(func() error { s.kill(); return nil })
	return s, s.awaitListening(l.ctx)
}

func (s *server) awaitListening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for s.addr == "" {
		select {
		case <-ctx.Done():
			return fmt.Errorf("start server: %w\n%s", ctx.Err(), s.tail())
		case <-s.ended:
			return fmt.Errorf("start server: it ended\n%s", s.tail())
		case <-time.After(startPoll):
			s.addr = s.listening()
		}
	}
	return nil
}

// listening finds the first line of the log that says "listening".
func (s *server) listening() string {
	log, err := os.Open(s.log)
	if err != nil {
		return ""
	}
	defer log.Close()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct{ Msg, Addr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			return line.Addr
		}
	}
	return ""
}

// tail is the end of the log, for an error.
func (s *server) tail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// kill ends the process as a power cut would. A second call does nothing.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// stop ends the process in good order, for what it writes at its end.
func (s *server) stop() error {
	_ = s.stdin.Close()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopPatience):
		s.kill()
		return errors.New("a server did not stop")
	}
}

// scrape reads /metrics: the series without labels, by name.
func (s *server) scrape(ctx context.Context) (Values, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("scrape: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("scrape: %w", err)
	}
	defer answer.Body.Close()
	values := Values{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	return values, lines.Err()
}
