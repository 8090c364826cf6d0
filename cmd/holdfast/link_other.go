//go:build !linux

package main

import "syscall"

// giveUpUnheard: elsewhere the deadlines of the statements have to do.
func giveUpUnheard(string, string, syscall.RawConn) error { return nil }
