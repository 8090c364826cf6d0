package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"holdfast/api/console"
)

// New returns the whole HTTP face: every route on this page.
func New(p Params) http.Handler { return newAPI(p).routes() }

func (a *api) routes() *chi.Mux {
	r := chi.NewRouter()
	r.Use(plainPath, a.identify, a.observe, a.recover, secureHeaders)
	r.NotFound(handle(unknownRoute))
	r.MethodNotAllowed(handle(wrongMethod(r)))
	a.openRoutes(r)
	a.clientRoutes(r)
	a.operatorRoutes(r)
	a.brokerRoutes(r)
	a.consoleRoutes(r)
	return r
}

// openRoutes ask for no key.
func (a *api) openRoutes(r chi.Router) {
	get(r, "/", home)
	get(r, "/healthz", a.healthy)
	get(r, "/readyz", a.ready)
	get(r, "/openapi.json", openAPI)
	get(r, "/docs", docs)
	get(r, problemPath+"{slug}", docsOfProblem)
	if a.Metrics != nil {
		r.Method(http.MethodGet, "/metrics", a.Metrics)
		r.Method(http.MethodHead, "/metrics", a.Metrics)
	}
}

// clientRoutes are for a client's key, and all but the first for an operator's too.
func (a *api) clientRoutes(r chi.Router) {
	key := r.With(a.authenticate, a.limitRate)
	key.With(clientsOnly, a.bound).Post("/v1/purchases", handle(a.submit))
	b := key.With(clientsAndOperators, a.bound)
	get(b, "/v1/purchases", a.listPurchases)
	get(b, "/v1/purchases/{id}", a.getPurchase)
	get(b, "/v1/purchases/{id}/history", a.getHistory)
	get(b, "/v1/accounts/{id}", a.getAccount)
	b.Post("/v1/stream-tickets", handle(a.issueTicket))
	if a.Streams != nil {
		r.With(a.authenticateStream, a.limitRate, clientsAndOperators, a.bound).Method(http.MethodGet, "/v1/events", a.Streams)
	}
}

func (a *api) operatorRoutes(r chi.Router) {
	o := r.With(a.authenticate, a.limitRate, operatorsOnly, a.bound)
	o.Post("/v1/accounts", handle(a.createAccount))
	o.Patch("/v1/accounts/{id}", handle(a.updateAccount))
	o.Post("/v1/accounts/{id}/deposits", handle(a.deposit))
	o.Post("/v1/purchases/{id}/resolution", handle(a.resolve))
	o.Post("/v1/purchases/{id}/reconciliation", handle(a.reconcile))
	o.Post("/v1/reconciliations", handle(a.reconcileMany))
	o.Put("/v1/switches/{name}", handle(a.setSwitch))
	get(o, "/v1/summary", a.summary)
	get(o, "/v1/findings", a.listFindings)
	o.Post("/v1/findings/{id}/closing", handle(a.closeFinding))
}

// brokerRoutes are for a broker's key.
func (a *api) brokerRoutes(r chi.Router) {
	r.With(a.authenticate, a.limitRate, brokersOnly, a.bound).Post("/v1/broker-events", handle(a.brokerEvent))
}

// consoleRoutes require an operator session. They have slots of their own, so that
// nothing that comes to the console, with or without a session, can starve /v1/.
func (a *api) consoleRoutes(r chi.Router) {
	pages := console.New(console.Params{
		Purchases: a.Purchases, Switches: a.Switches, Keys: a.Keys, Pool: a.Pool,
		Refuse: refuse, Identified: func(ctx context.Context, keyID string) { notesOf(ctx).keyID = keyID },
		Log: a.Log, River: a.River,
	})
	c := r.With(a.boundConsole)
	c.Handle("/console", pages)
	c.Handle("/console/*", pages)
	c.Handle("/river", pages)
	c.Handle("/river/*", pages)
}

// plainPath lets the router read paths decoded: a character that needs no encoding means
// the same with it (RFC 3986, 6.2.2.2). Only a slash does not: it would be another path.
func plainPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(strings.ToUpper(r.URL.RawPath), "%2F") {
			r.URL.RawPath = ""
		}
		next.ServeHTTP(w, r)
	})
}

// routePath is the path as the router reads it.
func routePath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

// handler answers a request, or returns what [refuse] makes a problem of.
type handler func(w http.ResponseWriter, r *http.Request) error

func handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			refuse(w, r, err)
		}
	}
}

// get routes GET and HEAD: net/http leaves the body of a HEAD's answer out.
func get(r chi.Router, pattern string, h handler) {
	r.Get(pattern, handle(h))
	r.Head(pattern, handle(h))
}

func unknownRoute(http.ResponseWriter, *http.Request) error {
	return because(notFound, "there is no such route")
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// wrongMethod tells in Allow which methods the path does take. A method that the router
// has never heard of brings every path here, those that are none too.
func wrongMethod(routes chi.Routes) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		for _, method := range methods {
			if routes.Match(chi.NewRouteContext(), method, routePath(r)) {
				w.Header().Add("Allow", method)
			}
		}
		if w.Header().Get("Allow") == "" {
			return unknownRoute(w, r)
		}
		return because(methodNotAllowed, r.Method+" is not allowed here")
	}
}
