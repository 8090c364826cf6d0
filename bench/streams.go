package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// burstEvents are sent once all have had one: fewer than a stream may have waiting, and
	// the same number for each of the clients that buy them.
	burstEvents  = 24
	burstClients = 8
	// openAtOnce is how many streams are being opened at the same time.
	openAtOnce = 64
	// restTime lets a process come to rest before its memory is read.
	restTime = 2 * time.Second
	// burstPatience bounds the wait for all.
	burstPatience = 2 * time.Minute
)

var streamColumns = []string{"kB_each", "one_event_ms", "events_per_second"}

// streams measures many subscribers of one account beside bare net/http streams.
func (l *env) streams() ([]Case, error) {
	c, err := l.compare(fmt.Sprintf("%d streams", l.o.Streams), streamColumns,
		subject{"holdfast", l.ownStreams},
		subject{"bare net/http", l.bareStreams})
	c.Note = fmt.Sprintf("resident memory a stream; from one event's commit until all have it; deliveries a second while %d more go to all", burstEvents)
	return []Case{c}, err
}

func (l *env) ownStreams() (Values, error) {
	product, err := l.product()
	if err != nil {
		return nil, err
	}
	if err := l.warm(product); err != nil {
		return nil, err
	}
	return l.crowd(product, "/v1/events", clientKey(0), func(count int) (time.Time, error) { return l.buyEvents(product, count) })
}

// buyEvents makes events by purchases, and returns when the first was committed.
func (l *env) buyEvents(product *server, count int) (time.Time, error) {
	d := l.load(product, min(count, burstClients), 1)
	d.want, d.until = count, time.Now().Add(burstPatience)
	began := time.Now()
	if _, _, err := d.run(l.ctx); err != nil {
		return time.Time{}, err
	}
	var at time.Time
	err := l.query(product.database, "SELECT min(pg_xact_commit_timestamp(xmin)) FROM transaction_history WHERE idempotency_key LIKE $1",
		[]any{fmt.Sprintf("b%d-%%", d.series)}, &at)
	if err == nil && at.Before(began.Add(-time.Second)) {
		err = fmt.Errorf("commit at %s of a purchase made at %s", at, began)
	}
	return at, err
}

func (l *env) bareStreams() (Values, error) {
	bare, err := l.startPart("bare-streams", part{})
	if err != nil {
		return nil, err
	}
	return l.crowd(bare, "/", "", func(count int) (time.Time, error) { return emit(l.ctx, bare.addr, count) })
}

// crowd opens the streams, from another process, and sends events to all of them.
func (l *env) crowd(s *server, path, key string, send func(count int) (time.Time, error)) (Values, error) {
	time.Sleep(min(restTime, l.o.Duration))
	before, err := memory(s.pid())
	if err != nil {
		return nil, err
	}
	listener, err := l.startPart("listener", part{Addr: s.addr, Path: path, Key: key, Streams: l.o.Streams})
	if err != nil {
		return nil, err
	}
	time.Sleep(min(restTime, l.o.Duration))
	after, err := memory(s.pid())
	if err != nil {
		return nil, err
	}
	values := Values{"kB_each": (after - before) / float64(l.o.Streams) / 1024}
	started, err := send(1)
	if err != nil {
		return nil, err
	}
	all, err := listener.awaitAll(l.ctx, 1)
	if err != nil {
		return nil, err
	}
	values["one_event_ms"] = milliseconds(all.Sub(started))
	if started, err = send(burstEvents); err != nil {
		return nil, err
	}
	if all, err = listener.awaitAll(l.ctx, 1+burstEvents); err != nil {
		return nil, err
	}
	values["events_per_second"] = float64(burstEvents*l.o.Streams) / all.Sub(started).Seconds()
	listener.kill()
	s.kill()
	return values, nil
}

// awaitAll waits for the listener to say when all streams had count events.
func (s *server) awaitAll(ctx context.Context, count int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, burstPatience)
	defer cancel()
	mark := fmt.Sprintf("all %d", count)
	for {
		text, err := os.ReadFile(s.log)
		if err != nil {
			return time.Time{}, fmt.Errorf("read listener's log: %w", err)
		}
		for line := range bytes.Lines(text) {
			var said struct{ Msg, Addr string }
			if json.Unmarshal(line, &said) == nil && said.Msg == mark {
				nanos, err := strconv.ParseInt(said.Addr, 10, 64)
				return time.Unix(0, nanos), err
			}
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait until all streams have %d events: %w\n%s", count, ctx.Err(), s.tail())
		case <-s.ended:
			return time.Time{}, fmt.Errorf("the listener ended\n%s", s.tail())
		case <-time.After(startPoll):
		}
	}
}

// memory is a process's resident memory in bytes.
func memory(pid int) (float64, error) {
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		var size, resident float64
		_, err := fmt.Sscan(string(text), &size, &resident)
		return resident * float64(os.Getpagesize()), err
	}
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("read memory of a process: %w", err)
	}
	kilobytes, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return kilobytes * 1024, err
}

// tally counts how many streams have had so many events.
type tally struct {
	mu      sync.Mutex
	streams int
	reached map[int]int
	out     io.Writer
}

func (t *tally) reach(count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reached[count]++
	if t.reached[count] == t.streams {
		say(t.out, fmt.Sprintf("all %d", count), strconv.FormatInt(time.Now().UnixNano(), 10))
	}
}

// runListener opens the streams and says whenever all of them have had an event more.
func (p part) runListener(ctx context.Context, out io.Writer) error {
	t := &tally{streams: p.Streams, reached: map[int]int{}, out: out}
	places, failed := make(chan struct{}, openAtOnce), make(chan error, p.Streams)
	var opening sync.WaitGroup
	for range p.Streams {
		places <- struct{}{}
		opening.Go(func() {
			defer func() { <-places }()
			s, err := subscribe(ctx, p.Addr, p.Path, p.Key)
			if err != nil {
				failed <- err
				return
			}
			go t.count(s)
		})
	}
	opening.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	say(out, "listening", "nowhere")
	<-ctx.Done()
	return nil
}

func (t *tally) count(s *subscriber) {
	defer s.close()
	for i := 1; ; i++ {
		if _, more := s.next(); !more {
			return
		}
		t.reach(i)
	}
}

// bareStreams is the baseline: a handler that writes what a channel brings.
type bareStreams struct {
	mu   sync.Mutex
	open map[chan []byte]struct{}
}

func newBareStreams() *bareStreams { return &bareStreams{open: map[chan []byte]struct{}{}} }

// bareBuffer is what a stream may have waiting.
const bareBuffer = 256

func (b *bareStreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		b.emit(w, r)
		return
	}
	events := make(chan []byte, bareBuffer)
	b.mu.Lock()
	b.open[events] = struct{}{}
	b.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	_ = control.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-events:
			if _, err := w.Write(event); err != nil || control.Flush() != nil {
				return
			}
		}
	}
}

// emit sends so many events to all and answers when it began.
func (b *bareStreams) emit(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	count, _ := strconv.Atoi(r.URL.Query().Get("count"))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range count {
		event := fmt.Appendf(nil, "id: %d\nevent: purchase.completed\ndata: {\"id\":\"%d\",\"purchase_id\":\"0198f2c4-0000-7000-8000-000000000000\","+
			"\"account_id\":\"bench-0\",\"status\":\"COMPLETED\",\"previous_status\":\"PENDING\",\"outcome\":\"completed\",\"version\":2,"+
			"\"reason\":null,\"occurred_at\":\"2026-01-01T00:00:00.000000Z\"}\n\n", i, i)
		for events := range b.open {
			events <- event
		}
	}
	fmt.Fprint(w, began.UnixNano())
}

func emit(ctx context.Context, addr string, count int) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s/?count=%d", addr, count), nil)
	if err != nil {
		return time.Time{}, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return time.Time{}, fmt.Errorf("emit: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return time.Time{}, fmt.Errorf("emit: %w", err)
	}
	nanos, err := strconv.ParseInt(string(text), 10, 64)
	return time.Unix(0, nanos), err
}
