package outbox_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/testkit/pgtest"
	"holdfast/outbox"
)

const beat = 100 * time.Millisecond

// listening is a listener that counts its wake-ups and writes a log.
type listening struct {
	woken atomic.Int64
	mu    sync.Mutex
	log   bytes.Buffer
}

func (l *listening) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *listening) said(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.log.String(), text)
}

func listen(t *testing.T, url string, pool *pgxpool.Pool) *listening {
	t.Helper()
	l := &listening{}
	listener := outbox.NewListener(outbox.ListenerConfig{
		URL: url, Pool: pool, Beat: beat, Wake: func(uint32) { l.woken.Add(1) }, Log: slog.New(slog.NewTextHandler(l, nil)),
	})
	start(t, listener.Run)
	return l
}

// hears waits until a notification arrives.
func (l *listening) hears(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	eventually(t, "a notification arrives", func() bool {
		before := l.woken.Load()
		exec(t, pool, "SELECT pg_notify('holdfast_events', '')")
		<-time.After(20 * time.Millisecond)
		return l.woken.Load() > before
	})
}

func TestListenerComesBackWhenTerminated(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	l := listen(t, named(t, pool.Config().ConnString(), "listener"), pool)
	l.hears(t, pool)
	exec(t, pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'listener' AND datname = current_database()")
	begun := time.Now()
	l.hears(t, pool)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func named(t *testing.T, raw, name string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// proxy passes connections on to a database until it is told to swallow what they carry,
// as a network does that has lost their state.
type proxy struct {
	listener net.Listener
	to       func() (net.Conn, error)
	swallows atomic.Bool
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func startProxy(t *testing.T, to func() (net.Conn, error)) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, to: to}
	p.wg.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) stop() {
	p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := p.to()
		if err != nil {
			near.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, near, far)
		p.mu.Unlock()
		swallow := p.swallows.Load() // only what is open stays lost: the way itself heals
		p.wg.Go(func() { p.pass(near, far, swallow) })
		p.wg.Go(func() { p.pass(far, near, swallow) })
	}
}

func (p *proxy) pass(from io.Reader, to io.Writer, deaf bool) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if p.swallows.Load() || deaf {
			deaf = true
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// dialer reaches the database of a pool, by whatever way its URL says.
func dialer(pool *pgxpool.Pool) func() (net.Conn, error) {
	c := pool.Config().ConnConfig
	if strings.HasPrefix(c.Host, "/") {
		return func() (net.Conn, error) { return net.Dial("unix", c.Host+"/.s.PGSQL."+port(c.Port)) }
	}
	return func() (net.Conn, error) { return net.Dial("tcp", net.JoinHostPort(c.Host, port(c.Port))) }
}

func TestListenerLeavesABlackHole(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	p := startProxy(t, dialer(pool))
	l := listen(t, through(t, pool, p), pool)
	l.hears(t, pool)
	p.swallows.Store(true)
	eventually(t, "the silence is noticed", func() bool { return l.said("replacing a listener") > 0 })
	p.swallows.Store(false)
	begun := time.Now()
	l.hears(t, pool)
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
}

// The first host of the address is silent: getting past it takes longer than the watchdog
// has patience with a connection that listens.
func TestListenerPassesASilentHost(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	silent, p := startProxy(t, dialer(pool)), startProxy(t, dialer(pool))
	silent.swallows.Store(true)
	url := strings.Replace(through(t, pool, p), p.listener.Addr().String(),
		silent.listener.Addr().String()+","+p.listener.Addr().String(), 1)
	l := listen(t, url, pool)
	l.hears(t, pool)
	if n := l.said("replacing a listener"); n > 0 {
		t.Errorf("replaced %d times on the way", n)
	}
}

// Nothing is heard in another database: it stands for a pooler that swallows LISTEN.
func TestListenerSaysOnceThatItIsDeaf(t *testing.T) {
	t.Parallel()
	pool, elsewhere := pgtest.New(t), pgtest.New(t)
	l := listen(t, elsewhere.Config().ConnString(), pool)
	eventually(t, "it is said", func() bool { return l.said("polling alone") == 1 })
	box := outbox.NewHub(outbox.HubConfig{Pool: pool, Encode: encode})
	start(t, box.Run)
	<-box.Ready()
	r := subscribe(t, box, outbox.Filter{})
	fill(t, pool, 3)
	eventually(t, "polling delivers", func() bool { return r.has() == 3 })
	if n := l.said("polling alone"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}

func port(n uint16) string { return strconv.Itoa(int(n)) }

// through is the pool's URL by way of the proxy.
func through(t *testing.T, pool *pgxpool.Pool, p *proxy) string {
	t.Helper()
	c := pool.Config().ConnConfig
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.User, c.Password),
		Host: p.listener.Addr().String(), Path: "/" + c.Database, RawQuery: "sslmode=disable",
	}
	return u.String()
}
