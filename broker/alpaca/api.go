package alpaca

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"holdfast/broker"
)

// The base URLs of Alpaca's environments, for the Trading and the Broker API.
const (
	PaperURL         = "https://paper-api.alpaca.markets"
	LiveURL          = "https://api.alpaca.markets"
	BrokerSandboxURL = "https://broker-api.sandbox.alpaca.markets"
	BrokerLiveURL    = "https://broker-api.alpaca.markets"
)

// api is what the two APIs differ in; their orders, statuses and errors are the same.
type api struct {
	name, baseURL, version string
	// orders returns the path of an account's orders, escaped.
	orders func(account string) (string, error)
	// authorize returns the headers that carry the key.
	authorize func(Config) http.Header
}

// base takes the URL with or without the version that Alpaca's own pages append.
func (a api) base(raw string) string {
	return strings.TrimSuffix(strings.TrimRight(raw, "/"), a.version)
}

// trading is the Trading API: the login is the account.
var trading = api{
	name: "alpaca", baseURL: PaperURL, version: "/v2",
	orders: func(string) (string, error) { return "/v2/orders", nil },
	authorize: func(c Config) http.Header {
		header := make(http.Header)
		header.Set("APCA-API-KEY-ID", c.KeyID)
		header.Set("APCA-API-SECRET-KEY", c.Secret)
		return header
	},
}

// brokerAPI is the Broker API: the login acts for accounts, and the path names one.
var brokerAPI = api{
	name: "alpaca-broker", baseURL: BrokerSandboxURL, version: "/v1",
	orders: func(account string) (string, error) {
		if account == "" {
			return "", errors.New("the account has no name at the broker")
		}
		return "/v1/trading/accounts/" + url.PathEscape(account) + "/orders", nil
	},
	authorize: func(c Config) http.Header {
		key := base64.StdEncoding.EncodeToString([]byte(c.KeyID + ":" + c.Secret))
		return http.Header{"Authorization": {"Basic " + key}}
	},
}

// Client is the adapter of the Trading API.
type Client struct{ client }

// BrokerClient is the adapter of the Broker API. It is not a [broker.Lister]: the API lists
// the orders of one account at a time.
type BrokerClient struct{ client }

var (
	_ broker.Broker = (*Client)(nil)
	_ broker.Lister = (*Client)(nil)
	_ broker.Broker = (*BrokerClient)(nil)
)

// New makes the adapter of the Trading API. It checks config and makes no connection.
func New(config Config) (*Client, error) {
	made, err := newClient(trading, config)
	if err != nil {
		return nil, err
	}
	return &Client{made}, nil
}

// NewBroker makes the adapter of the Broker API. It checks config and makes no connection.
func NewBroker(config Config) (*BrokerClient, error) {
	made, err := newClient(brokerAPI, config)
	if err != nil {
		return nil, err
	}
	return &BrokerClient{made}, nil
}
