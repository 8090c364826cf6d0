package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"holdfast/broker"
)

const (
	// maxHeader bounds an answer's header, interim answers (100, 103) included, so
	// that a broker cannot feed us headers permanently.
	maxHeader = 64 << 10
	// idleTimeout is below the keep-alive of common servers (5 s and more): a
	// connection that the broker closes while we write costs an uncertain purchase.
	idleTimeout = 4 * time.Second
	// maxIdle is how many connections wait for the next call.
	maxIdle = 128
	// patience is how long the body of an answer is waited for whose status line has
	// already decided that it proves nothing: it is wanted for the history only.
	patience = time.Second
)

// Config names the broker's server.
type Config struct {
	// BaseURL is http or https, with a host and perhaps a path.
	BaseURL string
	// Header is sent with every request.
	Header http.Header
	// Timeout bounds each exchange, all of it, beside the caller's own deadline.
	Timeout time.Duration
}

// Client makes exchanges with one server. It is safe for concurrent use.
type Client struct {
	base    string
	header  http.Header
	timeout time.Duration
	http    *http.Client
}

// New checks config; it makes no connection.
func New(config Config) (*Client, error) {
	base, err := checkURL(config.BaseURL)
	if err != nil {
		return nil, err
	}
	if config.Timeout <= 0 {
		return nil, errors.New("broker timeout must be above zero")
	}
	for name, values := range config.Header {
		if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			return nil, fmt.Errorf("broker header %s must be one line", name)
		}
	}
	return &Client{base: base, header: config.Header, timeout: config.Timeout, http: newHTTP()}, nil
}

// checkURL refuses what would later fail on every call, and credentials in a URL: they
// would end up in logs. The error does not repeat the URL for the same reason.
func checkURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return "", errors.New("broker URL must be http:// or https:// with a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("broker URL must have no user, query or fragment")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// newHTTP builds a client that never sends twice by itself: HTTP/1.1 only (HTTP/2
// replays any method), no redirect followed, no proxy from the environment.
func newHTTP() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	transport := &http.Transport{
		Proxy:                  nil,
		DialContext:            dial,
		Protocols:              protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTimeout,
	}
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialTLS(ctx, network, address, transport.TLSClientConfig)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes the connections that wait for a next call.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Post sends body once to path, which is already escaped. An empty body is not sent at
// all: net/http would feel free to send it twice.
func (c *Client) Post(ctx context.Context, path string, header http.Header, body []byte) Reply {
	if len(body) == 0 {
		return Reply{NotSent: true, Fault: broker.ConnectionFailed}
	}
	return c.exchange(ctx, http.MethodPost, path, header, bytes.NewReader(body))
}

// Get asks once for path, which is already escaped. net/http would repeat a GET that a
// reused connection failed; an attempt in the history is to be one request. A body that
// turns out to be empty is not sent, but makes the request one that cannot be repeated.
func (c *Client) Get(ctx context.Context, path string) Reply {
	return c.exchange(ctx, http.MethodGet, path, nil, empty{})
}

// empty is a body without a byte that is not [http.NoBody].
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }

func (c *Client) exchange(ctx context.Context, method, path string, header http.Header, body io.Reader) Reply {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply := c.do(ctx, cancel, method, path, header, body)
	reply.Duration = time.Since(started)
	return reply
}

func (c *Client) do(ctx context.Context, cancel context.CancelFunc, method, path string, header http.Header, body io.Reader) Reply {
	seen := &progress{ctx: ctx}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, seen.trace()), method, c.base+path, body)
	if err != nil {
		return Reply{NotSent: true, Fault: broker.ConnectionFailed}
	}
	request.GetBody = nil // with it, net/http may send the order a second time
	c.setHeader(request, header)
	response, err := c.http.Do(request)
	if err != nil {
		return lost(ctx, seen, method, err)
	}
	defer func() { _ = response.Body.Close() }()
	return read(ctx, cancel, response)
}

// lost judges an exchange whose header did not come whole. To a place call a 4xx is a
// refusal by its status line alone; a lookup proves nothing with half an answer.
func lost(ctx context.Context, seen *progress, method string, err error) Reply {
	reply := seen.failed(ctx, err)
	if method == http.MethodPost {
		reply.Status = seen.refused()
	}
	return reply
}

func (c *Client) setHeader(request *http.Request, extra http.Header) {
	request.Header.Set("Accept", "application/json")
	// The code in a refusal's body can decide; a compressed body would hide it.
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", "Holdfast")
	if request.Method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, header := range []http.Header{c.header, extra} {
		for name, values := range header {
			request.Header[name] = values
		}
	}
}
