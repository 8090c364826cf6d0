package wire

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// handshakeTimeout bounds a TLS handshake that its own exchange no longer waits for.
const handshakeTimeout = 30 * time.Second

// conn is a connection as net/http sees it, plaintext, that shows what passes to the
// exchange which uses it: net/http tells nothing of an answer before its whole header.
type conn struct {
	net.Conn

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

// dial connects for plain http.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	plain, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: plain}, nil
}

// dialTLS connects for https: the handshake is made here, so that what passes through
// the returned connection is plaintext.
func dialTLS(ctx context.Context, network, address string, config *tls.Config) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	plain, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(plain, configFor(config, host))
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, err
	}
	return &conn{Conn: secure}, nil
}

// configFor offers HTTP/1.1 alone.
func configFor(config *tls.Config, host string) *tls.Config {
	if config == nil {
		config = new(tls.Config)
	}
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}
