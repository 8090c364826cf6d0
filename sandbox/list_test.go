package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/broker"
)

// list reads the whole list of the last hour, page by page.
func (b bundle) list(t *testing.T) []broker.ListedOrder {
	t.Helper()
	window := broker.Window{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
	var orders []broker.ListedOrder
	for range 10 {
		page, err := b.client.List(t.Context(), window)
		if err != nil {
			t.Fatal(err)
		}
		orders = append(orders, page.Orders...)
		if window.Cursor = page.NextCursor; window.Cursor == "" {
			return orders
		}
	}
	t.Fatal("the list does not end")
	return nil
}

func TestListHasEveryOrderOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 20*time.Second)
	for n := range 230 {
		b.place(t, fmt.Sprintf("hf-%d", n), order("AAPL"))
	}
	ids := map[string]bool{}
	for _, o := range b.list(t) {
		ids[o.OrderID] = true
		if o.Status != broker.Accepted || o.Account != "acct-1" || o.Cost.Decimal.String() != "250" || o.CreatedAt.IsZero() {
			t.Errorf("listed %+v", o)
		}
	}
	if len(ids) != 230 {
		t.Errorf("%d orders, want 230", len(ids))
	}
}

// TestListDiffersFromTheAnswers: what each symbol makes the list say.
func TestListDiffersFromTheAnswers(t *testing.T) {
	t.Parallel()
	for symbol, want := range map[string]string{
		"AAPL": "accepted 250 10", "REJECT": "", "REJECT-2XX": "rejected 0 0", "UNLISTED": "",
		"SECOND-ORDER": "accepted 250 10; accepted 250 10", "REJECTED-LISTED": "accepted 250 10",
		"LISTED-COST": "accepted 200 10", "LISTED-QUANTITY": "accepted 250 5", "PROCESSING-FOREVER": "processing 0 0",
	} {
		t.Run(symbol, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 20*time.Second)
			b.place(t, "hf-1", order(symbol))
			var got []string
			for _, o := range b.list(t) {
				got = append(got, fmt.Sprint(o.Status, " ", o.Cost.Decimal, " ", o.FilledQuantity.Decimal))
			}
			if strings.Join(got, "; ") != want {
				t.Errorf("listed %q, want %q", got, want)
			}
		})
	}
}

// TestWorkingOrderEnds: three lookups see it processing, the fourth its end.
func TestWorkingOrderEnds(t *testing.T) {
	t.Parallel()
	for symbol, want := range map[string]string{
		"WORKING-FILLED": "accepted  250", "WORKING-CANCELED": "rejected canceled 0", "WORKING-EXPIRED": "accepted  125",
	} {
		b := setup(t, 20*time.Second)
		b.place(t, "hf-1", order(symbol))
		for range 3 {
			if found := b.client.Lookup(t.Context(), broker.Query{Key: "hf-1"}); found.Verdict != broker.Processing {
				t.Errorf("%s: %s", symbol, found.Verdict)
			}
		}
		found := b.client.Lookup(t.Context(), broker.Query{Key: "hf-1"})
		if got := fmt.Sprint(found.Verdict, " ", found.Code, " ", found.Cost.Decimal); got != want {
			t.Errorf("%s ends %q, want %q", symbol, got, want)
		}
	}
}

func TestModesOfLookupAndList(t *testing.T) {
	t.Parallel()
	b := setup(t, 20*time.Second)
	b.place(t, "hf-1", order("AAPL"))
	find := func() broker.Answer { return b.client.Lookup(t.Context(), broker.Query{Key: "hf-1"}) }
	mode := func(body string) {
		t.Helper()
		if status, said := b.control(t, "PUT", "/control/mode", body); status != 200 {
			t.Fatalf("mode %s: %d %s", body, status, said)
		}
	}
	mode(`{"no_lookup":true,"no_list":true}`)
	if found := find(); found.Verdict != broker.Uncertain || found.StatusCode != 404 {
		t.Errorf("without a lookup: %s, status %d", found.Verdict, found.StatusCode)
	}
	if _, err := b.client.List(t.Context(), broker.Window{}); err == nil {
		t.Error("there is a list")
	}
	mode(`{"outage":"gateway"}`)
	if placed := b.place(t, "hf-2", order("AAPL")); placed.BrokerRefusal || placed.StatusCode != 404 {
		t.Errorf("behind a gateway: %+v", placed)
	}
	for _, form := range []string{"bom", "sparse"} {
		mode(`{"form":"` + form + `"}`)
		if found := find(); found.Verdict != broker.Accepted {
			t.Errorf("in the form %s: %s %s", form, found.Verdict, found.Reason)
		}
	}
	mode(`{"lag_lookups":2}`)
	b.place(t, "hf-3", order("AAPL"))
	for i, want := range []broker.Verdict{broker.Absent, broker.Absent, broker.Accepted} {
		if found := b.client.Lookup(t.Context(), broker.Query{Key: "hf-3"}); found.Verdict != want {
			t.Errorf("lookup %d with a lag of two: %s", i+1, found.Verdict)
		}
	}
}

// TestControlRefusesOtherOrigins: a web page must not control a broker on this machine.
func TestControlRefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	b := setup(t, 5*time.Second)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, b.url+"/control/ledger", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer secret")
	request.Header.Set("Origin", "https://evil.example")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, want 403", response.StatusCode)
	}
}
