package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// ClientAddr returns the address of a request's client, without a port. A proxy in front
// names its client in X-Forwarded-For; its last entry, which is the proxy's own, counts if
// the connection comes from a loopback or private address, where a proxy would be. A client
// in such a network can claim any address; so this is for logs and for limits that protect
// nothing but load, never for access.
func ClientAddr(r *http.Request) string {
	peer := hostOf(r.RemoteAddr)
	ip, err := netip.ParseAddr(peer)
	proxy := ip.IsLoopback() || ip.IsPrivate()
	if err != nil || !proxy {
		return peer
	}
	entries := r.Header.Values("X-Forwarded-For")
	if len(entries) == 0 {
		return peer
	}
	list := strings.Split(entries[len(entries)-1], ",")
	forwarded, err := netip.ParseAddr(strings.TrimSpace(list[len(list)-1]))
	if err != nil {
		return peer
	}
	return forwarded.String()
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
