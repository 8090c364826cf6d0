package httpbroker_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/brokertest"
)

// TestBrokerRefusal: which 4xx are the broker's own, and not a gateway's.
func TestBrokerRefusal(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"code":"market_closed"}`: true, "\ufeff" + `{"code":"","message":"\ud800"}`: true,
		`{"code":"` + strings.Repeat("x", 200_000) + `"}`: true,
		``: false, `<html>`: false, `{}`: false, `{"code":4}`: false, `{"code":null}`: false, `[{"code":"x"}]`: false,
		`{"code":"x"`: false, `{"code":"x","code":"y"}`: false, `{"error":{"code":"x"}}`: false,
	} {
		b := setup(t, 10*time.Second)
		b.server.Script(brokertest.Answer(422, body))
		if answer := b.place(t); answer.BrokerRefusal != want || answer.Verdict != broker.Rejected {
			t.Errorf("%.40s: %s, broker refusal %v, want %v", body, answer.Verdict, answer.BrokerRefusal, want)
		}
	}
}
