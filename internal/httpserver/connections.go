package httpserver

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"syscall"
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

// connections bounds how many there are, streams aside: without descriptors left neither
// the database nor the broker could be reached. At the limit the connection that has been
// without a request for longest gives way to the new one.
type connections struct {
	mu    sync.Mutex
	max   int
	open  int
	freed *sync.Cond
	// waiting are the connections without a request, longest first.
	waiting *list.List
	places  map[net.Conn]*list.Element
	closed  bool
}

func newConnections(most int) *connections {
	c := &connections{max: most, waiting: list.New(), places: map[net.Conn]*list.Element{}}
	c.freed = sync.NewCond(&c.mu)
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
		c.places[conn] = c.waiting.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		c.open--
		c.freed.Signal()
	case http.StateActive:
	}
}

// acquire takes a place, and reports whether the listener is still open.
func (c *connections) acquire() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.max && !c.closed {
		c.evict()
		if c.open >= c.max {
			c.freed.Wait()
		}
	}
	c.open++
	return !c.closed
}

// evict closes the connection that has waited longest; closing gives its place back.
func (c *connections) evict() {
	oldest := c.waiting.Front()
	if oldest == nil {
		return
	}
	conn, _ := oldest.Value.(net.Conn)
	c.waiting.Remove(oldest)
	delete(c.places, conn)
	c.mu.Unlock()
	conn.Close()
	c.mu.Lock()
}

func (c *connections) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.freed.Signal()
}

func (c *connections) limit(listener net.Listener) net.Listener {
	return &limited{Listener: listener, conns: c}
}

type limited struct {
	net.Listener
	conns *connections
}

func (l *limited) Accept() (net.Conn, error) {
	if !l.conns.acquire() {
		l.conns.release()
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		l.conns.release()
	}
	return conn, err
}

func (l *limited) Close() error {
	l.conns.mu.Lock()
	l.conns.closed = true
	l.conns.freed.Broadcast()
	l.conns.mu.Unlock()
	return l.Listener.Close()
}
