package wire

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// BenchmarkConnection compares an exchange on a connection of its own with one on a
// reused connection, over loopback.
func BenchmarkConnection(b *testing.B) {
	for _, server := range []struct {
		name  string
		start func(http.Handler) *httptest.Server
	}{{"HTTP", httptest.NewServer}, {"HTTPS", httptest.NewTLSServer}} {
		started := server.start(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		b.Cleanup(started.Close)
		config := Config{BaseURL: started.URL, Timeout: 10 * time.Second}
		if started.TLS != nil {
			config.TLS = started.Client().Transport.(*http.Transport).TLSClientConfig
		}
		client, err := New(config)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(client.Close)
		for name, call := range map[string]call{"Fresh": {http: client.fresh}, "Reused": {http: client.pooled}} {
			b.Run(server.name+name, func(b *testing.B) {
				call.method, call.path = http.MethodGet, "/"
				for b.Loop() {
					call.body = empty{}
					if reply := client.exchange(b.Context(), call); reply.Status != http.StatusOK {
						b.Fatalf("%+v", reply)
					}
				}
			})
		}
	}
}
