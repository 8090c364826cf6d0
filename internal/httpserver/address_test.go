package httpserver_test

import (
	"net/http"
	"testing"

	"holdfast/internal/httpserver"
)

func TestClientAddr(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"Direct":             {"203.0.113.7:4000", nil, "203.0.113.7"},
		"DirectIPv6":         {"[2001:db8::1]:4000", nil, "2001:db8::1"},
		"ClaimFromOutside":   {"203.0.113.7:4000", []string{"198.51.100.1"}, "203.0.113.7"},
		"BehindProxy":        {"127.0.0.1:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"BehindTwo":          {"10.0.0.2:4000", []string{"9.9.9.9, 198.51.100.1"}, "198.51.100.1"},
		"SeveralHeaders":     {"10.0.0.2:4000", []string{"9.9.9.9", "198.51.100.1"}, "198.51.100.1"},
		"NoAddress":          {"10.0.0.2:4000", []string{"a b\nc"}, "10.0.0.2"},
		"WithoutPort":        {"pipe", nil, "pipe"},
		"PrivateWithoutMore": {"192.168.1.5:1", nil, "192.168.1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
			if got := httpserver.ClientAddr(r); got != c.want {
				t.Errorf("ClientAddr = %q, want %q", got, c.want)
			}
		})
	}
}
