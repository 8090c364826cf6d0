package main

import (
	"strings"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall does not name.
const tcpUserTimeout = 18

// giveUpUnheard ends a connection whose other side acknowledges nothing; the kernel would
// try for a quarter of an hour.
func giveUpUnheard(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unheardMax.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
