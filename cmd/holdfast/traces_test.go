package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A caller's trace continues through the request to the broker call.
func TestTraces(t *testing.T) {
	t.Parallel()
	var spans output
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			_, _ = io.Copy(&spans, r.Body)
		}
	}))
	t.Cleanup(collector.Close)
	w := setup(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	s := launch(t, w.settings)
	trace := []byte{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36}
	a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "k",
		"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if err != nil || a.status != http.StatusCreated {
		t.Fatalf("buy: %d, %v: %s", a.status, err, a.body)
	}
	if code := s.stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
	sent := []byte(spans.String())
	if !bytes.Contains(sent, []byte("broker place")) || bytes.Count(sent, trace) < 2 {
		t.Errorf("spans of the trace: %d, of the broker: %d", bytes.Count(sent, trace), bytes.Count(sent, []byte("broker place")))
	}
}
