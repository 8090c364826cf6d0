//go:build !linux

package wire

import (
	"net"
	"time"
)

// setUserTimeout does nothing: the system has no such option.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
