package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxAnswer bounds what is read of one answer.
	maxAnswer = 16 << 20
	// defaultTimeout bounds one call whose context has no deadline. It is above the
	// longest wait that [Client.Wait] asks the server for.
	defaultTimeout = 60 * time.Second
	dialTimeout    = 10 * time.Second
	// idleTimeout is below the server's, so that no request meets a closing connection.
	idleTimeout = 60 * time.Second
	maxIdle     = 16
)

// Config of a [Client].
type Config struct {
	// URL is Holdfast's, such as http://127.0.0.1:8080.
	URL string
	// Key is an API key.
	Key string
	// HTTP is nil for a plain client. A timeout of its own would end streams.
	HTTP *http.Client
}

// Client makes calls with one key. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New returns a client; it makes no call yet.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, errors.New("holdfast URL is not an http or https URL")
	}
	if c.Key == "" {
		return nil, errors.New("holdfast API key is missing")
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{Transport: newTransport()}
	}
	return &Client{base: strings.TrimRight(c.URL, "/"), key: c.Key, http: c.HTTP}, nil
}

// newTransport bounds what a stream's client has no timeout for: the way to the answer's
// first byte.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: defaultTimeout,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConnsPerHost:   maxIdle,
		ForceAttemptHTTP2:     true,
	}
}

// call is one request.
type call struct {
	method, path string
	query        url.Values
	header       map[string]string
	body         any
}

// answer is what came back and was no problem.
type answer struct {
	status int
	header http.Header
}

// do makes a call and decodes the answer into the value at into. A problem document is
// returned as a [*Problem].
func (c *Client) do(ctx context.Context, call call, into any) (answer, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	request, err := c.request(ctx, call)
	if err != nil {
		return answer{}, err
	}
	response, err := c.send(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("read holdfast's answer: %w", err)
	}
	if err := problemIn(response, body); err != nil {
		return answer{}, err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return answer{}, fmt.Errorf("decode holdfast's answer (%s): %w", response.Status, err)
	}
	return answer{status: response.StatusCode, header: response.Header}, nil
}

func (c *Client) request(ctx context.Context, call call) (*http.Request, error) {
	var body io.Reader
	if call.body != nil {
		encoded, err := json.Marshal(call.body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	target := c.base + call.path
	if len(call.query) > 0 {
		target += "?" + call.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, call.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range call.header {
		request.Header.Set(name, value)
	}
	return request, nil
}

// send makes the request. That nobody listens at the address is the likeliest failure and
// is told as that.
func (c *Client) send(request *http.Request) (*http.Response, error) {
	response, err := c.http.Do(request)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return nil, fmt.Errorf("no Holdfast answers at %s: %w", c.base, dial)
	}
	if err != nil {
		return nil, fmt.Errorf("call holdfast: %w", err)
	}
	return response, nil
}

// values is a query of what is not empty.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
