package wire

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// conn is a connection as net/http sees it, plaintext, that shows what passes to the
// exchange which uses it: net/http reports nothing of an answer before its whole header.
type conn struct {
	net.Conn
	tcp *net.TCPConn // below Conn
	// reset ends the connection at once when it is closed. Closed in good order, the
	// kernel would go on retransmitting an order that was not acknowledged, for minutes
	// after the exchange was declared over; and it would hold the port for another minute.
	reset bool

	mu       sync.Mutex
	exchange *progress
}

// use makes exchange the one that the connection works for.
func (c *conn) use(exchange *progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchange = exchange
}

func (c *conn) user() *progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exchange
}

// Read shows the exchange what was read.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if exchange := c.user(); exchange != nil && n > 0 {
		exchange.sawRead(p[:n])
	}
	return n, err
}

// Write writes nothing that the exchange does not allow (any longer).
func (c *conn) Write(p []byte) (int, error) {
	if exchange := c.user(); exchange != nil {
		if err := exchange.allowWrite(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// Close closes the connection, or resets it.
func (c *conn) Close() error {
	if c.reset && c.tcp != nil {
		_ = c.tcp.SetLinger(0)
	}
	return c.Conn.Close()
}

// dialer makes connections that may take as long as their exchange may.
type dialer struct {
	config *tls.Config
	reset  bool
}

// plain connects for http.
func (d dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := withDialDeadline(ctx)
	defer cancel()
	return d.dial(ctx, network, address)
}

// secure connects for https: the handshake is made here, so that what passes through
// the returned connection is plaintext.
func (d dialer) secure(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDialDeadline(ctx)
	defer cancel()
	dialed, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(dialed.Conn, d.configFor(host))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = dialed.Close()
		return nil, err
	}
	dialed.Conn = secure
	return dialed, nil
}

func (d dialer) dial(ctx context.Context, network, address string) (*conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tcp, _ := raw.(*net.TCPConn)
	return &conn{Conn: raw, tcp: tcp, reset: d.reset}, nil
}

func (d dialer) configFor(host string) *tls.Config {
	config := d.config.Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}
