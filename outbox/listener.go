package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgxlisten"

	"holdfast/outbox/db"
)

// channel is the one of all notifications; the function move_outbox and the query
// Heartbeat name it too.
const channel = "holdfast_events"

// heartbeat is the payload that says only that notifications arrive.
const heartbeat = "heartbeat"

const (
	// beatEvery and beatsMissed: a connection that brings nothing for some three seconds,
	// though notifications are sent, is replaced. Only silence can tell: the other side of
	// a half-open connection never will, and a LISTEN session cannot ask.
	beatEvery   = time.Second
	beatsMissed = 3
	// connectTimeout bounds a dial into a network that swallows everything.
	connectTimeout = 3 * time.Second
	// reconnectDelay stands in for pgxlisten's minute.
	reconnectDelay = time.Second
	// openMax is how long a session may take until it listens: a few silent hosts, each
	// for connectTimeout, are passed over before the one that answers.
	openMax = 15 * time.Second
	// deafMax sessions in a row that heard nothing mean that LISTEN does not work here;
	// then one is tried every deafRetry.
	deafMax   = 3
	deafRetry = time.Minute
)

// ListenerConfig of a [Listener].
type ListenerConfig struct {
	// URL of a direct connection: LISTEN hears nothing through a transaction pooler.
	URL string
	// Pool sends the heartbeats.
	Pool *pgxpool.Pool
	// Wake is called for every notification with the server process that sent it, and
	// with 0 when listening begins. It must not block.
	Wake func(backend uint32)
	// Beat is how often a heartbeat is sent while all is quiet; zero means a second.
	Beat time.Duration
	Log  *slog.Logger
}

// Listener hears of other processes' batches, one connection a process. What it misses
// the polls find.
type Listener struct {
	url     string
	queries *db.Queries
	wake    func(uint32)
	beat    time.Duration
	log     *slog.Logger
	trouble trouble
	heard   atomic.Int64
	// open: the present connection listens.
	open atomic.Bool
}

// NewListener returns a listener that [Listener.Run] sets to work.
func NewListener(c ListenerConfig) *Listener {
	l := &Listener{url: c.URL, queries: db.New(c.Pool), wake: c.Wake, beat: c.Beat, log: orDiscard(c.Log)}
	if l.beat <= 0 {
		l.beat = beatEvery
	}
	l.trouble = trouble{log: l.log, what: "event listener"}
	return l
}

// Run listens until ctx ends, and returns nil then.
func (l *Listener) Run(ctx context.Context) error {
	deaf, said := 0, false
	for ctx.Err() == nil {
		heard, opened := l.session(ctx)
		if heard {
			deaf, said = 0, false
			continue
		}
		if opened {
			deaf++
		}
		if deaf < deafMax {
			continue
		}
		if !said && ctx.Err() == nil {
			said = true
			l.log.WarnContext(ctx, "no notification arrives on the LISTEN connection: events are found by polling alone",
				"try", "a direct database connection for LISTEN, past any transaction pooler")
		}
		sleep(ctx, deafRetry)
	}
	return nil
}

// session listens until the watchdog finds it deaf, or ctx ends. It reports whether it had
// heard anything before, and whether it listened at all.
func (l *Listener) session(ctx context.Context) (heard, opened bool) {
	before := l.heard.Load()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.listen(ctx)
	}()
	l.watch(ctx)
	opened = l.open.Load()
	cancel()
	<-done
	return l.heard.Load() != before, opened
}

// listen returns when ctx ends; pgxlisten reconnects by itself till then.
func (l *Listener) listen(ctx context.Context) {
	listener := pgxlisten.Listener{
		Connect:        l.connect,
		ReconnectDelay: reconnectDelay,
		LogError:       l.trouble.note,
	}
	listener.Handle(channel, handler{l})
	// It returns ctx's error only: connecting and handling are set above.
	_ = listener.Listen(ctx)
}

func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	l.open.Store(false)
	config, err := pgx.ParseConfig(l.url)
	if err != nil {
		return nil, fmt.Errorf("parse listen url: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to listen: %w", err)
	}
	return conn, nil
}

// watch sends a heartbeat whenever it has been quiet, and returns when several in a row
// were sent and none was heard. Those that could not be sent, or that were sent before the
// connection listened, prove nothing.
func (l *Listener) watch(ctx context.Context) {
	l.open.Store(false)
	listened, heard, missed := time.Now(), l.heard.Load(), 0
	for sleep(ctx, l.beat) {
		switch {
		case l.open.Load():
			listened = time.Now()
		case time.Since(listened) < openMax:
			missed = 0
			continue
		}
		if now := l.heard.Load(); now != heard {
			heard, missed = now, 0
			continue
		}
		if missed == beatsMissed {
			l.log.InfoContext(ctx, "replacing a listener that hears nothing")
			return
		}
		if l.sendBeat(ctx) == nil {
			missed++
		}
	}
}

func (l *Listener) sendBeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return l.queries.Heartbeat(ctx, heartbeat)
}

// handler runs on the connection's only goroutine: it pokes and returns.
type handler struct{ *Listener }

func (h handler) HandleNotification(ctx context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.heard.Add(1)
	h.trouble.note(ctx, nil)
	if n.Payload != heartbeat {
		h.wake(n.PID)
	}
	return nil
}

// HandleBacklog is called when listening begins: what was told before went unheard.
func (h handler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.open.Store(true)
	h.wake(0)
	return nil
}
