package main

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"holdfast/internal/testkit/pgtest"
)

// network is a proxy to a Postgres with its own address. It can drop all traffic, like a
// network that has forgotten its connections: both sides stay connected and receive nothing
// more.
type network struct {
	t        *testing.T
	listener net.Listener
	socket   string

	mu     sync.Mutex
	dead   bool
	routes map[*route]bool
	wg     sync.WaitGroup
}

// route is one connection.
type route struct {
	near, far net.Conn
	mu        sync.Mutex
	lost      bool
}

func networkTo(t *testing.T, cluster *pgtest.Cluster) *network {
	t.Helper()
	dir, port := cluster.Socket(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{t: t, listener: listener, socket: filepath.Join(dir, ".s.PGSQL."+port), routes: map[*route]bool{}}
	n.wg.Go(n.accept)
	t.Cleanup(n.close)
	return n
}

func (n *network) address() (host, port string) {
	host, port, err := net.SplitHostPort(n.listener.Addr().String())
	if err != nil {
		n.t.Fatal(err)
	}
	return host, port
}

// url is the database's address through this proxy.
func (n *network) url() string {
	return "postgres://holdfast@" + n.listener.Addr().String() + "/holdfast?sslmode=disable"
}

func (n *network) accept() {
	for {
		near, err := n.listener.Accept()
		if err != nil {
			return
		}
		var d net.Dialer
		far, err := d.DialContext(n.t.Context(), "unix", n.socket)
		if err != nil {
			_ = near.Close()
			continue
		}
		n.join(&route{near: near, far: far})
	}
}

func (n *network) join(r *route) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.lost = n.dead
	n.routes[r] = true
	n.wg.Go(func() { r.carry(r.far, r.near) })
	n.wg.Go(func() { r.carry(r.near, r.far) })
}

// lose drops the traffic of every current connection; with all, of future ones as well.
func (n *network) lose(all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead = all
	for r := range n.routes {
		r.mu.Lock()
		r.lost = true
		r.mu.Unlock()
	}
}

func (n *network) close() {
	_ = n.listener.Close()
	n.mu.Lock()
	for r := range n.routes {
		_, _ = r.near.Close(), r.far.Close()
	}
	n.mu.Unlock()
	n.wg.Wait()
}

func (r *route) carry(to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		size, err := from.Read(buffer)
		r.mu.Lock()
		lost := r.lost
		r.mu.Unlock()
		if lost && err == nil {
			continue
		}
		if err == nil {
			_, err = to.Write(buffer[:size])
		}
		if err != nil {
			if !lost { // otherwise the end is not forwarded either
				_, _ = r.near.Close(), r.far.Close()
			}
			return
		}
	}
}
