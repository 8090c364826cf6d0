package brokertest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Request is one request as the server read it.
type Request struct {
	Method string
	// Path is the request target as sent, escapes and query included.
	Path   string
	Header http.Header
	Body   []byte
	// Conn numbers the connection it came on, from 1.
	Conn int
}

// Server is a broker made of raw TCP: each request it reads is answered by the next act
// of its script, and by its standing act when the script is over. It counts every
// request that it has read to the end, so a test sees what was sent twice.
type Server struct {
	listener net.Listener
	done     chan struct{}
	group    sync.WaitGroup

	mu       sync.Mutex
	script   []Act
	standing Act
	requests []Request
	arrived  chan struct{} // closed and renewed at each request
	conns    map[net.Conn]struct{}
	accepted int
}

// NewServer listens on a loopback port until the test ends. Without a script it closes
// every connection unanswered.
func NewServer(t testing.TB) *Server {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for the scripted broker: %v", err)
	}
	s := &Server{
		listener: listener,
		done:     make(chan struct{}),
		standing: Close(),
		arrived:  make(chan struct{}),
		conns:    make(map[net.Conn]struct{}),
	}
	s.group.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

// URL is the server's base URL.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Script appends acts, one for each of the next requests.
func (s *Server) Script(acts ...Act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, acts...)
}

// Standing sets the act for every request beyond the script.
func (s *Server) Standing(act Act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing = act
}

// Requests are all requests read so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Await waits until n requests have been read, and fails the test after ten seconds.
func (s *Server) Await(t testing.TB, n int) []Request {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		requests, arrived := slices.Clone(s.requests), s.arrived
		s.mu.Unlock()
		if len(requests) >= n {
			return requests
		}
		select {
		case <-arrived:
		case <-deadline:
			t.Fatalf("scripted broker read %d requests, want %d", len(requests), n)
		}
	}
}

// Close ends every act, closes every connection and waits for both. It may be called
// more than once; afterwards connections are refused.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	_ = s.listener.Close()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.group.Wait()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if number, ok := s.keep(conn); ok {
			s.group.Go(func() { s.serve(conn, number) })
		}
	}
}

func (s *Server) keep(conn net.Conn) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		_ = conn.Close()
		return 0, false
	default:
	}
	s.conns[conn] = struct{}{}
	s.accepted++
	return s.accepted, true
}

func (s *Server) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	_ = conn.Close()
}

// serve reads requests off one connection until an act or the client ends it.
func (s *Server) serve(conn net.Conn, number int) {
	defer s.forget(conn)
	reader := bufio.NewReader(conn)
	for {
		request, err := readRequest(reader)
		if err != nil {
			return
		}
		request.Conn = number
		exchange := &Exchange{Request: request, conn: conn, reader: reader, done: s.done}
		s.next(request)(exchange)
		if exchange.ended {
			return
		}
	}
}

func readRequest(reader *bufio.Reader) (Request, error) {
	request, err := http.ReadRequest(reader)
	if err != nil {
		return Request{}, err
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return Request{}, err
	}
	return Request{Method: request.Method, Path: request.RequestURI, Header: request.Header, Body: bytes.Clone(body)}, nil
}

func (s *Server) next(request Request) Act {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	close(s.arrived)
	s.arrived = make(chan struct{})
	if len(s.script) == 0 {
		return s.standing
	}
	act := s.script[0]
	s.script = s.script[1:]
	return act
}
