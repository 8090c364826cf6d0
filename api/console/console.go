package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/api/console/db"
	"holdfast/auth"
	"holdfast/purchase"
	"holdfast/statement"
)

var (
	// ErrCrossOrigin is a write that another site's page made a browser send.
	ErrCrossOrigin = errors.New("cross-origin write")
	// ErrNoSession is a request without an operator's session.
	ErrNoSession = errors.New("no operator session")
)

// What the API and the pages say of a purchase that cannot be resolved or reconciled.
const (
	PassInProgress = "a worker is reconciling it at this moment and may be sending its order; nothing was decided"
	StillPending   = "its first call to the broker is in progress or was cut off; it becomes UNKNOWN by itself within its grace"
	NotOpen        = "only a purchase in UNKNOWN or MANUAL_REVIEW can be reconciled"
)

// Params is what the console needs of the other rooms.
type Params struct {
	Purchases *purchase.Service
	Switches  *purchase.Switches
	Keys      *auth.Store
	Pool      *pgxpool.Pool
	// River is River's own page, mounted at /river/; nil where there is none.
	River http.Handler
	// Refuse answers what is no page with the problem that the error is.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Identified names the key of the session to the access log.
	Identified func(ctx context.Context, keyID string)
	Log        *slog.Logger
}

type console struct {
	Params
	queries  *db.Queries
	findings *statement.Findings
}

// New returns the handler of /console/ and /river/.
func New(p Params) http.Handler {
	c := &console{Params: p, queries: db.New(p.Pool), findings: statement.NewFindings(p.Pool)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console/login", c.loginPage)
	mux.HandleFunc("POST /console/login", c.login)
	mux.HandleFunc("POST /console/logout", c.logout)
	mux.HandleFunc("GET /console/style.css", style)
	mux.Handle("GET /console", c.operator(page(c.home)))
	mux.Handle("GET /console/{$}", c.operator(page(c.overview)))
	mux.Handle("GET /console/purchases", c.operator(page(c.list)))
	mux.Handle("GET /console/purchases/{id}", c.operator(page(c.show)))
	mux.Handle("POST /console/purchases/{id}/resolution", c.operator(page(c.resolve)))
	mux.Handle("POST /console/purchases/{id}/reconciliation", c.operator(page(c.reconcile)))
	mux.Handle("GET /console/findings", c.operator(page(c.listFindings)))
	mux.Handle("POST /console/findings/{id}/closing", c.operator(page(c.closeFinding)))
	mux.Handle("POST /console/switches/{name}", c.operator(page(c.setSwitch)))
	mux.Handle("/river", c.operator(http.HandlerFunc(c.river)))
	mux.Handle("/river/", c.operator(http.HandlerFunc(c.river)))
	mux.Handle("/console/", c.operator(page(c.nothing)))
	return c.sameOrigin(mux)
}

// sameOrigin refuses writes that another site's page makes a browser send with our
// cookie. River's own handler has no such check.
func (c *console) sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.Refuse(w, r, ErrCrossOrigin)
	}))
	return protection.Handler(next)
}

// riverPolicy is what River's page needs of a browser: its own scripts, and styles that
// its components set as they go.
const riverPolicy = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"

func (c *console) river(w http.ResponseWriter, r *http.Request) {
	// What is no text is no name of River's: it would ask its database all the same.
	if c.River == nil || !utf8.ValidString(r.URL.Path) || strings.ContainsRune(r.URL.Path, 0) {
		page(c.nothing)(w, r)
		return
	}
	w = &uncached{ResponseWriter: w}
	if !wantsPage(r) {
		c.River.ServeHTTP(w, r)
		return
	}
	p := &riverWriter{ResponseWriter: w}
	c.River.ServeHTTP(p, r)
	p.send()
}
