//go:build !linux

package postgres

import "syscall"

// setTCPUserTimeout does nothing here: the statements' own deadlines apply.
func setTCPUserTimeout(string, string, syscall.RawConn) error { return nil }
