package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"holdfast/broker"
)

// Config names the broker's server.
type Config struct {
	// BaseURL is http or https, with a host and optionally a path.
	BaseURL string
	// Header is sent with every request.
	Header http.Header
	// Timeout bounds each exchange as a whole, in addition to the caller's own deadline.
	Timeout time.Duration
	// TLS has the roots and the client certificate of https; nil is the system's roots.
	TLS *tls.Config
}

// Client makes exchanges with one server. It is safe for concurrent use.
type Client struct {
	base    string
	header  http.Header
	timeout time.Duration
	// fresh gives each exchange a connection of its own, pooled reuses them.
	fresh, pooled *http.Client
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
	return &Client{
		base: base, header: config.Header, timeout: config.Timeout,
		fresh: newFresh(config.TLS), pooled: newPooled(config.TLS),
	}, nil
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

// Close closes idle connections; the client stays usable.
func (c *Client) Close() { c.pooled.CloseIdleConnections() }

// Post is a request that carries an order.
type Post struct {
	// Path is already escaped.
	Path   string
	Header http.Header
	Body   []byte
	// SendBefore is when the last byte of the request must have been sent; the zero time
	// sets no limit beyond the exchange's deadline.
	SendBefore time.Time
}

// Post sends the order once, on a connection of its own: a second answer to another order,
// left over on a reused connection, must not be taken for this one's. An empty body is not
// sent at all: net/http would feel free to send it twice.
func (c *Client) Post(ctx context.Context, post Post) Reply {
	if len(post.Body) == 0 {
		return Reply{NotSent: true, Fault: broker.ConnectionFailed}
	}
	return c.exchange(ctx, call{
		http: c.fresh, method: http.MethodPost, path: post.Path, header: post.Header,
		body: bytes.NewReader(post.Body), sendBefore: post.SendBefore,
	})
}

// Get asks once for path, which is already escaped. Its connection may have carried
// another answer, so the answer must name what it is about. Nothing is sent after sendBefore;
// the zero time sets no limit beyond the context's.
func (c *Client) Get(ctx context.Context, path string, sendBefore time.Time) Reply {
	return c.exchange(ctx, call{http: c.pooled, method: http.MethodGet, path: path, body: empty{}, sendBefore: sendBefore})
}

// GetFresh is Get on a connection of its own, for answers that do not name what they are
// about.
func (c *Client) GetFresh(ctx context.Context, path string, sendBefore time.Time) Reply {
	return c.exchange(ctx, call{http: c.fresh, method: http.MethodGet, path: path, body: empty{}, sendBefore: sendBefore})
}

// empty is a body without a byte that is not [http.NoBody]. net/http would repeat a GET
// that a reused connection failed, but an attempt in the history must be one request: a
// body that turns out to be empty is not sent, and makes the request unrepeatable.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }

// call is one request to be made.
type call struct {
	http       *http.Client
	method     string
	path       string
	header     http.Header
	body       io.Reader
	sendBefore time.Time
}

func (c *Client) exchange(ctx context.Context, call call) Reply {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply := c.do(ctx, cancel, call)
	reply.Duration = time.Since(started)
	return reply
}

func (c *Client) do(ctx context.Context, cancel context.CancelFunc, call call) Reply {
	seen := &progress{ctx: ctx, sendBefore: call.sendBefore}
	if seen.tooLate(time.Now()) {
		return Reply{NotSent: true, Fault: broker.Timeout}
	}
	traced := httptrace.WithClientTrace(withProgress(ctx, seen), seen.trace())
	request, err := http.NewRequestWithContext(traced, call.method, c.base+call.path, call.body) //nolint:gosec // the server is the operator's setting
	if err != nil {
		return Reply{NotSent: true, Fault: broker.ConnectionFailed}
	}
	request.GetBody = nil // with it, net/http may send the order a second time
	c.setHeader(request, call.header)
	response, err := call.http.Do(request) //nolint:gosec // as above
	if err != nil {
		return lost(ctx, seen, call.method, err)
	}
	defer func() { _ = response.Body.Close() }()
	if seen.unrequested() {
		return seen.failed(ctx, errUnrequested)
	}
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
