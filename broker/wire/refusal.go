package wire

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"holdfast/broker"
)

// Refuse reads a 4xx of a place call: a rejection by its status line alone, except for
// those that concern the key or the exchange itself. duplicate reports whether the body
// says that the key was used before, in whatever form the broker says it.
func (r Reply) Refuse(answer *broker.Answer, codes Codes, duplicate bool) {
	answer.Code = codes.Top
	answer.BrokerRefusal = r.HasCode('"')
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

// RefuseLookup reads a 4xx of a lookup: it proves nothing, unless absent reports that it
// is the broker's own "not found". A gateway says 404 too.
func (r Reply) RefuseLookup(answer *broker.Answer, absent bool) {
	if r.Status == http.StatusNotFound && absent {
		answer.Verdict, answer.Reason = broker.Absent, ""
		return
	}
	// A lookup orders nothing, so a 403 can only concern our credentials.
	answer.CredentialsRefused = r.refusesCredentials() || r.Status == http.StatusForbidden
}

// HasCode reports whether the body came whole and is a JSON object whose "code" is of one
// of kinds: a refusal in the broker's own form, not a gateway's page.
func (r Reply) HasCode(kinds ...jsontext.Kind) bool {
	var code jsontext.Value
	if r.Fault != "" || Object(r.Body, map[string]*jsontext.Value{"code": &code}) != nil {
		return false
	}
	return slices.Contains(kinds, code.Kind())
}

func (r Reply) refusesCredentials() bool {
	return r.Status == http.StatusUnauthorized || r.Status == http.StatusProxyAuthRequired
}

// aboutCaller reports whether a refusal says nothing about the order, only about our
// credentials, our rate, or the key.
func aboutCaller(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return false
}
