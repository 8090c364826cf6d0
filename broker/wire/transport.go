package wire

import (
	"crypto/tls"
	"net/http"
	"time"
)

const (
	// maxHeader bounds an answer's header, interim answers (100, 103) included, so
	// that a broker cannot send headers indefinitely.
	maxHeader = 64 << 10
	// idleTimeout is below the keep-alive of common servers (5 s and more): a
	// connection that the broker closes while we write costs an uncertain lookup.
	idleTimeout = 4 * time.Second
	// maxIdle is how many connections are kept for the next lookup.
	maxIdle = 128
	// maxSessions is how many TLS sessions are kept, one per server: resuming one spares
	// each fresh connection the certificates.
	maxSessions = 4
)

// newFresh returns a client that connects for each exchange and resets the connection
// when the exchange ends.
func newFresh(config *tls.Config) *http.Client {
	transport := newTransport(dialer{config: clientConfig(config), reset: true})
	transport.DisableKeepAlives = true
	return newHTTP(transport)
}

// newPooled returns a client that keeps connections for the next exchange.
func newPooled(config *tls.Config) *http.Client {
	transport := newTransport(dialer{config: clientConfig(config)})
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = maxIdle, maxIdle
	transport.IdleConnTimeout = idleTimeout
	return newHTTP(transport)
}

// newTransport never sends twice: HTTP/1.1 only (HTTP/2 replays any method), no proxy
// from the environment (a proxy may repeat).
func newTransport(d dialer) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		Protocols:              protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// newHTTP follows no redirect: one that is followed sends the order to another server.
func newHTTP(transport *http.Transport) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// clientConfig offers HTTP/1.1 alone.
func clientConfig(config *tls.Config) *tls.Config {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(maxSessions)
	}
	return config
}
