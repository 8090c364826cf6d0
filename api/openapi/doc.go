// Package openapi holds the hand-kept description of the HTTP API, as JSON for programs
// and as a page for people. Tests of package api hold it and the handlers together.
//
// It imports no other room; only api imports it.
package openapi
