package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzSubmission: whatever comes in, it is taken as something sound or refused with a
// problem that names what is wrong.
func FuzzSubmission(f *testing.F) {
	for _, seed := range []string{
		`{"account_id":"acct-1","symbol":"AAPL","quantity":"10","limit_price":"25.00","currency":"USD","metadata":{"a":[1e9]}}`,
		`{"account_id":"acct-1","symbol":"AAPL","notional":"1.00"}`, `{"a":1,"a":2}`, `[]`, ``, `{"symbol":"\ud800"}`, "{\"\xff\":1}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/purchases", strings.NewReader(sent))
		r.Header.Set("Content-Type", "application/json")
		_ = receive(r)
		s, err := readSubmission(r)
		if err != nil {
			if p := problemOf(err); (p.slug != invalidRequest || len(p.fields) == 0) && p.slug != tooLarge {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		for _, d := range []struct {
			given    bool
			positive bool
		}{
			{s.Quantity.Valid, s.Quantity.Decimal.IsPositive()}, {s.LimitPrice.Valid, s.LimitPrice.Decimal.IsPositive()},
			{s.Notional.Valid, s.Notional.Decimal.IsPositive()},
		} {
			if d.given != d.positive {
				t.Fatalf("took %+v", s)
			}
		}
		if s.Notional.Valid == s.Quantity.Valid || s.Quantity.Valid != s.LimitPrice.Valid {
			t.Fatalf("took %+v", s)
		}
		if !symbolForm.MatchString(s.Symbol) || !jsontext.Value(s.Metadata).IsValid() || len(s.Metadata) > maxMetadata {
			t.Fatalf("took %+v", s)
		}
	})
}

// FuzzHeaders: what a client writes into the headers that are read here never panics.
func FuzzHeaders(f *testing.F) {
	f.Add("wait=10", `W/"x", *`, "Bearer x", "AAAA")
	f.Fuzz(func(t *testing.T, prefer, match, authorization, cursor string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Prefer"], r.Header["Authorization"] = []string{prefer}, []string{authorization}
		if wait := preferredWait(r); wait < 0 || wait > maxWait {
			t.Fatalf("wait %v", wait)
		}
		matches([]string{match}, `"x"`)
		bearer(r)
		if id, err := readCursor(cursor); err == nil && cursorAfter(id) != cursor {
			t.Fatalf("cursor %q is %v", cursor, id)
		}
	})
}
