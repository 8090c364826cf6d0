package wire

import (
	"net/http"

	"holdfast/broker"
)

// Refuse reads a 4xx of a place call: a rejection by its status line alone, but for
// those that speak of the key or of the exchange itself. duplicate tells that the body
// says the key was used before, in whatever way the broker says it.
func (r Reply) Refuse(answer *broker.Answer, codes Codes, duplicate bool) {
	answer.Code = codes.Top
	answer.AboutCaller = aboutCaller(r.Status)
	// 403 is left out: of a place call it may speak of the order as well.
	answer.CredentialsRefused = r.refusesCredentials()
	switch {
	case duplicate, r.Status == http.StatusConflict:
		answer.Duplicate, answer.AboutCaller = true, true
		answer.Reason = broker.DuplicateKey
	case r.Status == http.StatusRequestTimeout:
		answer.Reason = broker.Timeout
	default:
		answer.Verdict, answer.Reason = broker.Rejected, ""
	}
}

// RefuseLookup reads a 4xx of a lookup: only a 404 proves something.
func (r Reply) RefuseLookup(answer *broker.Answer) {
	if r.Status == http.StatusNotFound {
		answer.Verdict, answer.Reason = broker.Absent, ""
		return
	}
	// A lookup orders nothing, so a 403 can only speak of us.
	answer.CredentialsRefused = r.refusesCredentials() || r.Status == http.StatusForbidden
}

func (r Reply) refusesCredentials() bool {
	return r.Status == http.StatusUnauthorized || r.Status == http.StatusProxyAuthRequired
}

// aboutCaller names the refusals that say nothing about the order: who we are, how
// fast we are, or that the broker is at work on this key.
func aboutCaller(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return false
}
