package httpserver

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

const (
	// reservedFiles are left to the database, the broker and the program's own files.
	reservedFiles = 512
	// unlimitedFiles is what counts if the system sets no limit.
	unlimitedFiles = 1 << 20
)

// FileLimit returns how many files this process may have open.
func FileLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return unlimitedFiles
	}
	return int(min(limit.Cur, unlimitedFiles))
}

// MaxStreams returns how many connections may be taken over: half of the files.
func MaxStreams() int { return FileLimit() / 2 }

// maxConnections is what streams and the reserve leave, at least a quarter of the files.
func maxConnections() int {
	files := FileLimit()
	return files - MaxStreams() - min(reservedFiles, files/4)
}

// graceTime is how long a connection may be without a request before it can be closed in
// favor of another one: a new one's first request is on its way.
const graceTime = time.Second

// connections bounds how many there are, streams aside: without descriptors left neither
// the database nor the broker could be reached. At the limit the connection that has been
// without a request for longest gives way to the new one.
type connections struct {
	mu      sync.Mutex
	max     int
	open    int
	changed *sync.Cond
	// waiting are the connections without a request, longest first.
	waiting *list.List
	places  map[net.Conn]*list.Element
	closed  bool
}

type waitingConn struct {
	conn  net.Conn
	since time.Time
}

func newConnections(most int) *connections {
	c := &connections{max: most, waiting: list.New(), places: map[net.Conn]*list.Element{}}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// observe is the server's ConnState hook.
func (c *connections) observe(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place, ok := c.places[conn]; ok {
		c.waiting.Remove(place)
		delete(c.places, conn)
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.places[conn] = c.waiting.PushBack(waitingConn{conn, time.Now()})
		c.changed.Signal()
	case http.StateClosed, http.StateHijacked:
		c.open--
		c.changed.Signal()
	case http.StateActive:
	}
}

// acquire waits for a place, and reports whether the listener is still open.
func (c *connections) acquire() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.max && !c.closed {
		c.makeRoom()
		if c.open >= c.max && !c.closed {
			c.changed.Wait()
		}
	}
	c.open++
	return !c.closed
}

// makeRoom closes the connection that has waited longest, which gives its place back, or
// sees to it that acquire looks again when it may.
func (c *connections) makeRoom() {
	oldest := c.waiting.Front()
	if oldest == nil {
		return
	}
	w, _ := oldest.Value.(waitingConn)
	if age := time.Since(w.since); age < graceTime {
		time.AfterFunc(graceTime-age, c.changed.Signal)
		return
	}
	c.waiting.Remove(oldest)
	delete(c.places, w.conn)
	c.mu.Unlock()
	w.conn.Close()
	c.mu.Lock()
}

func (c *connections) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.changed.Signal()
}

func (c *connections) limit(listener net.Listener) net.Listener {
	return &limited{Listener: listener, conns: c}
}

type limited struct {
	net.Listener
	conns *connections
}

func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.conns.acquire() {
		l.conns.release()
		conn.Close()
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *limited) Close() error {
	l.conns.mu.Lock()
	l.conns.closed = true
	l.conns.changed.Broadcast()
	l.conns.mu.Unlock()
	return l.Listener.Close()
}
