package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/internal/testkit/pgtest"
)

// listBroker is a broker that only lists orders.
func listBroker(t *testing.T, orders ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/orders" || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"orders":[%s],"next_cursor":null}`, strings.Join(orders, ","))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func listed(key, id string, age time.Duration) string {
	return fmt.Sprintf(`{"order_id":%q,"client_order_id":%q,"status":"completed","cost":"250.00","symbol":"AAPL","created_at":%q}`,
		id, key, time.Now().Add(-age).UTC().Format(time.RFC3339Nano))
}

const unknownKey = "hf-00000000000000000000000000000007"

func TestMatchFindsAnOrderThatNobodyPlaced(t *testing.T) {
	t.Parallel()
	settings := []string{
		"HOLDFAST_DATABASE_URL=" + pgtest.NewURL(t), "HOLDFAST_BROKER=http",
		"HOLDFAST_BROKER_URL=" + listBroker(t, listed(unknownKey, "7", time.Hour), listed("somebody-else", "8", time.Hour)),
		"HOLDFAST_OPERATOR_KEY=operator-key-for-the-tests", "HOLDFAST_ADDR=127.0.0.1:0", "HOLDFAST_MATCH_INTERVAL=100ms",
	}
	// A file that covers only the past hour produces no findings for the rest of the day.
	empty := filepath.Join(t.TempDir(), "orders.ndjson")
	if err := os.WriteFile(empty, []byte(listed("somebody-else", "8", time.Hour)+"\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := command(t, settings, "match", "--file", empty); r.code != exitDone || !strings.Contains(r.out, "no open findings") {
		t.Fatalf("match of a foreign order: exit %d: %s%s", r.code, r.out, r.err)
	}
	r := command(t, settings, "match", "--json")
	var report matchJSON
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != exitFailed {
		t.Fatalf("match: exit %d, %v: %s%s", r.code, err, r.out, r.err)
	}
	if len(report.New) != 1 || len(report.Open) != 1 || report.New[0].Kind != "unknown_order" || *report.New[0].OrderID != "7" || report.Foreign != 1 {
		t.Fatalf("match reports %+v", report)
	}
	if r := command(t, settings, "match"); r.code != exitFailed || !strings.Contains(r.out, "0 new findings") || !strings.Contains(r.out, "unknown_order") {
		t.Errorf("match again: exit %d: %s%s", r.code, r.out, r.err)
	}
	s := launch(t, settings)
	operator := []string{"HOLDFAST_URL=http://" + s.addr, "HOLDFAST_API_KEY=operator-key-for-the-tests"}
	eventually(t, "the loop's match", func() error {
		if !strings.Contains(s.err.String(), "broker's list matched") {
			return errors.New("no match in the log")
		}
		return nil
	})
	var page client.FindingPage
	if err := json.Unmarshal([]byte(must(t, operator, "findings", "--status", "open", "--json")), &page); err != nil || len(page.Data) != 1 {
		t.Fatalf("open findings %+v, %v", page, err)
	}
	metrics, err := s.call(http.MethodGet, "/metrics", "", "")
	if want := `kind="unknown_order"} 1`; err != nil || !strings.Contains(metrics.body, want) {
		t.Errorf("metrics have no %s, %v", want, err)
	}
	must(t, operator, "findings", "close", page.Data[0].ID, "--note", "an order of the old system")
	if out := must(t, operator, "findings"); !strings.Contains(out, "unknown_order") {
		t.Errorf("all findings:\n%s", out)
	}
	if r := command(t, settings, "match"); r.code != exitDone || !strings.Contains(r.out, "no open findings") {
		t.Errorf("match after closing: exit %d: %s%s", r.code, r.out, r.err)
	}
}

func TestMatchNamesBadLinesAndComparesNothing(t *testing.T) {
	t.Parallel()
	settings := []string{"HOLDFAST_DATABASE_URL=" + pgtest.NewURL(t), "HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL=http://127.0.0.1:1"}
	file := filepath.Join(t.TempDir(), "orders.ndjson")
	text := listed(unknownKey, "7", time.Hour) + "\n{\"order_id\":\n\n{}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, settings, "match", "--file", file)
	if r.code != exitUsage || !strings.Contains(r.err, "line 2: ") || !strings.Contains(r.err, "line 4: ") || strings.Contains(r.err, "line 1: ") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := command(t, settings, "match", "--file", file); r.code != exitDone {
		t.Errorf("after a file with bad lines, exit %d: %s%s", r.code, r.out, r.err)
	}
	if r := command(t, settings, "match"); r.code != exitFailed || !strings.Contains(r.err, "list orders") {
		t.Errorf("match with an unreachable broker: exit %d: %s%s", r.code, r.out, r.err)
	}
}
