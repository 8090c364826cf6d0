package config

import "strings"

// These hosts buy with real money; every other host of Alpaca's is a test environment.
const (
	alpacaLiveHost       = "api.alpaca.markets"
	alpacaBrokerLiveHost = "broker-api.alpaca.markets"
)

func (b Broker) isAlpaca() bool { return b.Kind == Alpaca || b.Kind == AlpacaBroker }

// AlpacaKeys splits a broker token into the two halves of Alpaca's API key.
func AlpacaKeys(token string) (id, secret string, ok bool) {
	id, secret, found := strings.Cut(token, ":")
	return id, secret, found && id != "" && secret != ""
}

// alpacaToken reads the pair under the names that Alpaca's own libraries use.
func alpacaToken(env Env) string {
	id, secret := env["APCA_API_KEY_ID"], env["APCA_API_SECRET_KEY"]
	if id == "" || secret == "" {
		return ""
	}
	return id + ":" + secret
}
