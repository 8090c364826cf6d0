package postgres

import (
	"strings"
	"syscall"
)

// optTCPUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall does not name.
const optTCPUserTimeout = 18

// setTCPUserTimeout closes a connection whose peer acknowledges nothing. By default the
// kernel would retransmit for a quarter of an hour.
func setTCPUserTimeout(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, optTCPUserTimeout, int(tcpUserTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
