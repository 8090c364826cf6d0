package config

import "strings"

// AlpacaKeys splits a broker token into the pair that Alpaca expects in two headers.
func AlpacaKeys(token string) (id, secret string, ok bool) {
	id, secret, found := strings.Cut(token, ":")
	return id, secret, found && id != "" && secret != ""
}

// alpacaToken reads the pair under the names that Alpaca's own libraries use.
func alpacaToken(r *reader) string {
	id, _ := r.lookup("APCA_API_KEY_ID")
	secret, _ := r.lookup("APCA_API_SECRET_KEY")
	if id == "" || secret == "" {
		return ""
	}
	return id + ":" + secret
}
