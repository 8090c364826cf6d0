package config

import "strings"

// alpacaLiveHost buys with real money; every other host of Alpaca's is a paper one.
const alpacaLiveHost = "api.alpaca.markets"

// AlpacaKeys splits a broker token into the pair that Alpaca expects in two headers.
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
