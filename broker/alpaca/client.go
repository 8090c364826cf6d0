package alpaca

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"holdfast/broker"
	"holdfast/broker/wire"
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

// Config describes the login at Alpaca.
type Config struct {
	// BaseURL is the environment without real money if it is empty.
	BaseURL string
	// KeyID and Secret are the API key's two halves.
	KeyID, Secret string
	// TimeInForce of whole-share limit orders; ImmediateOrCancel if it is empty.
	// Fractional and notional orders are always Day: Alpaca takes no other.
	TimeInForce TimeInForce
	// Timeout is the deadline of one exchange as a whole.
	Timeout time.Duration
	// KeyRetention is how long Alpaca is trusted to know a client order id.
	KeyRetention time.Duration
	// Settle is how long a placed order may stay invisible to a lookup.
	Settle time.Duration
	// ProcessingInterval is how soon to look again at an order that has not ended:
	// if zero, 5 s for ImmediateOrCancel and 30 s for Day.
	ProcessingInterval time.Duration
	// TLS has the roots and the client certificate; nil is the system's roots.
	TLS *tls.Config
}

func (c Config) withDefaults(a api) Config {
	c.BaseURL = cmp.Or(c.BaseURL, a.baseURL)
	c.TimeInForce = cmp.Or(c.TimeInForce, ImmediateOrCancel)
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

// client is the adapter of one of the APIs.
type client struct {
	api          api
	wire         *wire.Client
	timeInForce  TimeInForce
	capabilities broker.Capabilities
}

// newClient checks config; it makes no connection.
func newClient(a api, config Config) (client, error) {
	config = config.withDefaults(a)
	if err := config.check(); err != nil {
		return client{}, err
	}
	exchange, err := wire.New(wire.Config{
		BaseURL: a.base(config.BaseURL), Header: a.authorize(config), Timeout: config.Timeout, TLS: config.TLS,
	})
	if err != nil {
		return client{}, err
	}
	return client{api: a, wire: exchange, timeInForce: config.TimeInForce, capabilities: broker.Capabilities{
		Name:               a.name,
		Idempotent:         true, // a client order id is taken once
		KeyRetention:       config.KeyRetention,
		Settle:             config.Settle,
		Timeout:            config.Timeout,
		ProcessingInterval: config.ProcessingInterval,
	}}, nil
}

// Close closes idle connections; the client stays usable.
func (c *client) Close() { c.wire.Close() }

// Capabilities implements [broker.Broker].
func (c *client) Capabilities() broker.Capabilities { return c.capabilities }

// Place implements [broker.Broker]: one request on the wire, whatever happens to it.
func (c *client) Place(ctx context.Context, request broker.Request) broker.Answer {
	path, err := c.api.orders(request.Account)
	if err != nil {
		return notSent()
	}
	reply := c.wire.Post(ctx, wire.Post{Path: path, Body: request.Body, SendBefore: request.SendBefore})
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
func (c *client) Lookup(ctx context.Context, query broker.Query) broker.Answer {
	path, err := c.api.orders(query.Account)
	if err != nil {
		return notSent()
	}
	parameters := url.Values{"client_order_id": {query.Key}}
	// A "not found" need not name the order: its connection must not carry another's.
	reply := c.wire.GetFresh(ctx, path+":by_client_order_id?"+parameters.Encode(), query.SendBefore)
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

// notSent is the answer to a call that has no address.
func notSent() broker.Answer {
	return wire.Reply{NotSent: true, Fault: broker.ConnectionFailed}.Answer()
}
