package main

import (
	"errors"
	"strings"
	"testing"
)

// After a change of the broker's name, purchases of the former broker are neither looked up nor
// sent at the new one, and operators are alerted.
func TestPurchasesOfAFormerBroker(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_RETRY_MAX_AGE=3s", "HOLDFAST_BROKER_NAME=former")
	api := launch(t, w.settings, "--role", "api")
	_, p := api.buy(w.client, "acct-1", "ERR500-BOOKED", "k")
	api.stop()
	renamed := launch(t, append(w.settings, "HOLDFAST_BROKER_NAME=new"))
	for _, part := range []string{"does not serve", `"broker":"former","purchases":1,"serves":"new"`} {
		if log := renamed.err.String(); !strings.Contains(log, part) {
			t.Errorf("the log at startup lacks %q", part)
		}
	}
	renamed.awaitStatus(w.operator, p.ID, "MANUAL_REVIEW")
	eventually(t, "the alert", func() error {
		if !strings.Contains(renamed.err.String(), "broker.unserved") {
			return errors.New("not raised")
		}
		return nil
	})
	if calls := w.broker.Ledger(""); calls.Places != 1 || calls.Lookups != 0 {
		t.Errorf("the new broker was asked: %d places, %d lookups", calls.Places-1, calls.Lookups)
	}
	auditHolds(t, w.settings)
}
