package api_test

import (
	"strings"
	"testing"
)

// What the broker says about our own credentials is shown to operators only.
func TestTheBrokersAnswerAboutOurCredentials(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.buyAs("k", order(fields{"symbol": "CREDENTIALS"})).wantPurchase(422, "rejected")
	path := "/v1/purchases/" + a.text("id")
	for name, seen := range map[string]*answer{
		"first": a, "repeated": w.buyAs("k", order(fields{"symbol": "CREDENTIALS"})), "read": w.get(path, w.client), "history": w.get(path+"/history", w.client),
	} {
		if strings.Contains(string(seen.body), "who are you") {
			t.Errorf("%s: %s", name, seen.body)
		}
	}
	if seen := w.get(path, w.operator).wantStatus(200); !strings.Contains(string(seen.body), "who are you") {
		t.Errorf("an operator sees %s", seen.body)
	}
}
