// Package console is what an operator sees in a browser: the login, a summary with the
// switches, the purchases that need a person, each purchase with its timeline and the
// forms to resolve and reconcile it, and River's own page behind the same session.
//
// It is rendered here, needs no script and loads nothing from anywhere else. It has no
// rules of its own: it calls what the API calls. Only api imports it.
package console
