package httpbroker

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// Config describes the broker. KeyRetention, Settle and Idempotent are the operator's
// statement about it: nothing on the wire reports them.
type Config struct {
	// Name is stored with each purchase; "http" if it is empty.
	Name string
	// URL is the base URL.
	URL string
	// Token is sent as a bearer token; empty sends none.
	Token string
	// Timeout is the deadline of one exchange, all of it.
	Timeout time.Duration
	// KeyRetention is how long the broker remembers a key.
	KeyRetention time.Duration
	// Settle is how long a placed order may stay invisible to a lookup.
	Settle time.Duration
	// Idempotent: a second place under the same key buys nothing.
	Idempotent bool
	// NoLookup: the broker cannot look up an order.
	NoLookup bool
	// AbsenceLookups is how many consecutive "not found" answers prove that there is no order.
	AbsenceLookups int
	// ProcessingInterval is how often an order is looked up that the broker is processing.
	ProcessingInterval time.Duration
	// DuplicateCodes say, in any case, that a key was used before, besides every code
	// that contains "duplicate".
	DuplicateCodes []string
}

// Client is the adapter.
type Client struct {
	wire         *wire.Client
	capabilities broker.Capabilities
	duplicates   []string
}

var _ broker.Broker = (*Client)(nil)

// New checks config; it makes no connection.
func New(config Config) (*Client, error) {
	header := make(http.Header)
	if config.Token != "" {
		header.Set("Authorization", "Bearer "+config.Token)
	}
	exchange, err := wire.New(wire.Config{BaseURL: config.URL, Header: header, Timeout: config.Timeout})
	if err != nil {
		return nil, err
	}
	if config.KeyRetention < 0 || config.Settle < 0 {
		return nil, errors.New("broker key retention and settle time must not be below zero")
	}
	return &Client{wire: exchange, capabilities: capabilities(config), duplicates: cleaned(config.DuplicateCodes)}, nil
}

func capabilities(config Config) broker.Capabilities {
	name := config.Name
	if name == "" {
		name = "http"
	}
	return broker.Capabilities{
		Name:               name,
		Idempotent:         config.Idempotent,
		KeyRetention:       config.KeyRetention,
		Settle:             config.Settle,
		Timeout:            config.Timeout,
		NoLookup:           config.NoLookup,
		AbsenceLookups:     config.AbsenceLookups,
		ProcessingInterval: config.ProcessingInterval,
	}
}

func cleaned(codes []string) []string {
	var kept []string
	for _, code := range codes {
		if code = strings.TrimSpace(code); code != "" {
			kept = append(kept, code)
		}
	}
	return kept
}

// Close closes idle connections; the client stays usable.
func (c *Client) Close() { c.wire.Close() }

// Capabilities implements [broker.Broker].
func (c *Client) Capabilities() broker.Capabilities { return c.capabilities }

// Place implements [broker.Broker]: one request on the wire, whatever happens to it.
func (c *Client) Place(ctx context.Context, request broker.Request) broker.Answer {
	reply := c.wire.Post(ctx, wire.Post{
		Path:   "/v1/orders",
		Header: http.Header{"Idempotency-Key": {request.Key}},
		Body:   request.Body, SendBefore: request.SendBefore,
	})
	answer := reply.Answer()
	switch {
	case reply.Success():
		confirm(&answer, reply, request.Key)
	case reply.Refused():
		codes := wire.ReadCodes(reply.Body)
		reply.Refuse(&answer, codes, reply.SaysDuplicate(codes, c.duplicates))
	}
	return answer
}

// Lookup implements [broker.Broker].
func (c *Client) Lookup(ctx context.Context, query broker.Query) broker.Answer {
	reply := c.wire.Get(ctx, "/v1/orders/by-client-order-id/"+url.PathEscape(query.Key), query.SendBefore)
	answer := reply.Answer()
	switch {
	case reply.Status == http.StatusOK:
		confirm(&answer, reply, query.Key)
	case reply.Success():
		// Another 2xx is no documented answer to a lookup.
		answer.Reason = broker.UnconfirmedResponse
	case reply.Refused():
		reply.RefuseLookup(&answer, absent(reply, query.Key))
	}
	return answer
}
