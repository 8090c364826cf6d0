package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Router lets tests walk the routes.
func Router(p Params) chi.Routes { return newAPI(p).routes() }

// NewWaiting is New, with a count of the requests that wait for a purchase to end.
func NewWaiting(p Params) (handler http.Handler, waiting func() int) {
	a := newAPI(p)
	return a.routes(), func() int { return len(a.waiting) }
}

// HoldTurns takes every place of those who read the log.
func HoldTurns(s *Streams) (release func()) {
	for range replaysMax {
		s.replays <- struct{}{}
	}
	return func() {
		for range replaysMax {
			<-s.replays
		}
	}
}

// SetKeyMax changes how many streams one client key may have.
func (s *Streams) SetKeyMax(most int) { s.byKey = newPerKey(most) }
