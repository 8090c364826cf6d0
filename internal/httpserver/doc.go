// Package httpserver is the HTTP server of every listener of ours: the API with the
// console, a worker's health and metrics, a separate metrics address, and the sandbox.
//
// It bounds what a client can hold: every request body has a read deadline, whichever
// handler it goes to and whether or not that reads it; every response has a write
// deadline; connections are limited by the process's file descriptors; and a shutdown
// waits for requests, never for clients. Streams take their connection over (Hijack) and
// are then outside of all this.
//
// It knows no routes and imports nothing of Holdfast.
package httpserver
