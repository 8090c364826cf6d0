package alpaca

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// The base URLs of Alpaca's two environments.
const (
	PaperURL = "https://paper-api.alpaca.markets"
	LiveURL  = "https://api.alpaca.markets"
)

// TimeInForce is how long an order may stay open.
type TimeInForce string

const (
	// ImmediateOrCancel fills what can be filled now and cancels the rest: the order
	// has ended within a moment.
	ImmediateOrCancel TimeInForce = "ioc"
	// Day leaves the order open until the close.
	Day TimeInForce = "day"
)

// Config describes the account at Alpaca.
type Config struct {
	// BaseURL is PaperURL where it is empty: no real money by accident.
	BaseURL string
	// KeyID and Secret are the API key's two halves.
	KeyID, Secret string
	// TimeInForce of whole-share limit orders; ImmediateOrCancel where it is empty.
	// Fractional and notional orders are always Day: Alpaca takes no other.
	TimeInForce TimeInForce
	// Timeout is the deadline of one exchange, all of it.
	Timeout time.Duration
	// KeyRetention is how long Alpaca is trusted to know a client order id.
	KeyRetention time.Duration
	// Settle is how long a placed order may stay invisible to a lookup.
	Settle time.Duration
	// ProcessingInterval is how soon to look again at an order that has not ended:
	// where zero, 5 s for ImmediateOrCancel and 30 s for Day.
	ProcessingInterval time.Duration
}

// Client is the adapter.
type Client struct {
	wire         *wire.Client
	timeInForce  TimeInForce
	capabilities broker.Capabilities
}

var _ broker.Broker = (*Client)(nil)

// New checks config; it makes no connection.
func New(config Config) (*Client, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	header := make(http.Header)
	header.Set("APCA-API-KEY-ID", config.KeyID)
	header.Set("APCA-API-SECRET-KEY", config.Secret)
	exchange, err := wire.New(wire.Config{BaseURL: baseURL(config.BaseURL), Header: header, Timeout: config.Timeout})
	if err != nil {
		return nil, err
	}
	return &Client{wire: exchange, timeInForce: config.TimeInForce, capabilities: broker.Capabilities{
		Name:               "alpaca",
		Idempotent:         true, // a client order id is taken once
		KeyRetention:       config.KeyRetention,
		Settle:             config.Settle,
		Timeout:            config.Timeout,
		ProcessingInterval: config.ProcessingInterval,
	}}, nil
}

func (c Config) withDefaults() Config {
	if c.BaseURL == "" {
		c.BaseURL = PaperURL
	}
	if c.TimeInForce == "" {
		c.TimeInForce = ImmediateOrCancel
	}
	if c.ProcessingInterval == 0 {
		c.ProcessingInterval = 5 * time.Second
		if c.TimeInForce == Day {
			c.ProcessingInterval = 30 * time.Second
		}
	}
	return c
}

func (c Config) check() error {
	switch {
	case c.KeyID == "" || c.Secret == "":
		return errors.New("alpaca needs a key id and a secret")
	case c.TimeInForce != ImmediateOrCancel && c.TimeInForce != Day:
		return fmt.Errorf("alpaca time in force must be %s or %s", ImmediateOrCancel, Day)
	case c.KeyRetention < 0 || c.Settle < 0 || c.ProcessingInterval < 0:
		return errors.New("alpaca key retention, settle time and processing interval must not be below zero")
	}
	return nil
}

// baseURL takes the URL with or without the version that Alpaca's own pages append.
func baseURL(raw string) string {
	return strings.TrimSuffix(strings.TrimRight(raw, "/"), "/v2")
}

// Close closes idle connections; the client stays usable.
func (c *Client) Close() { c.wire.Close() }

// Capabilities implements [broker.Broker].
func (c *Client) Capabilities() broker.Capabilities { return c.capabilities }

// Place implements [broker.Broker]: one request on the wire, whatever happens to it.
func (c *Client) Place(ctx context.Context, request broker.Request) broker.Answer {
	reply := c.wire.Post(ctx, wire.Post{Path: "/v2/orders", Body: request.Body, SendBefore: request.SendBefore})
	answer := reply.Answer()
	switch {
	case reply.Success():
		confirm(&answer, reply, request.Key)
	case reply.Refused():
		reply.Refuse(&answer, wire.ReadCodes(reply.Body), saysDuplicate(reply))
		answer.BrokerRefusal = reply.HasCode('0', '"') // Alpaca's codes are numbers
	}
	answer.RetryAfter = max(answer.RetryAfter, rateReset(reply, time.Now()))
	return answer
}

// Lookup implements [broker.Broker].
func (c *Client) Lookup(ctx context.Context, query broker.Query) broker.Answer {
	parameters := url.Values{"client_order_id": {query.Key}}
	// Alpaca's "not found" does not name the order: its connection must not carry another's.
	reply := c.wire.GetFresh(ctx, "/v2/orders:by_client_order_id?"+parameters.Encode())
	answer := reply.Answer()
	switch {
	case reply.Status == http.StatusOK:
		confirm(&answer, reply, query.Key)
	case reply.Success():
		answer.Reason = broker.UnconfirmedResponse
	case reply.Refused():
		reply.RefuseLookup(&answer, absent(reply, query.Key))
	}
	answer.RetryAfter = max(answer.RetryAfter, rateReset(reply, time.Now()))
	return answer
}
