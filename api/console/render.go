package console

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"holdfast/auth"
	"holdfast/broker"
	"holdfast/internal/money"
	"holdfast/purchase"
)

//go:embed pages
var files embed.FS

// pagePolicy is what our pages need of a browser: a style sheet, and forms to us.
const pagePolicy = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

var pages = parse("login", "overview", "list", "purchase", "findings", "message")

func parse(names ...string) map[string]*template.Template {
	parsed := map[string]*template.Template{}
	for _, name := range names {
		parsed[name] = template.Must(template.New("layout.html").Funcs(functions).
			ParseFS(files, "pages/layout.html", "pages/parts.html", "pages/"+name+".html"))
	}
	return parsed
}

var functions = template.FuncMap{
	"time": func(t any) string {
		if at := moment(t); at != "–" {
			return at + " UTC"
		}
		return "–"
	},
	"moment": moment,
	"text": func(s *string) string {
		if s == nil || *s == "" {
			return "–"
		}
		return *s
	},
	"money": func(d decimal.Decimal, currency string) string {
		return money.FormatCurrency(d, currency) + " " + currency
	},
	"maybeMoney": func(d decimal.NullDecimal, currency string) string {
		if !d.Valid {
			return "–"
		}
		return money.FormatCurrency(d.Decimal, currency) + " " + currency
	},
	"number": func(d decimal.NullDecimal) string {
		if !d.Valid {
			return "–"
		}
		return money.Format(d.Decimal)
	},
	"short": func(id uuid.UUID) string { s := id.String(); return s[:8] + "…" + s[len(s)-6:] },
	"span":  span,
	"took":  took,
	"calls": calls,
	"order": describe,
}

// moment writes a time, in UTC, of which there may be none.
func moment(t any) string {
	at, ok := t.(time.Time)
	if p, isPointer := t.(*time.Time); isPointer && p != nil {
		at, ok = *p, true
	}
	if !ok {
		return "–"
	}
	return at.UTC().Format(time.DateTime)
}

// span writes an age that is zero where there is none.
func span(age time.Duration) string {
	switch {
	case age == 0:
		return "–"
	case age < time.Second:
		return "<1s"
	}
	return age.Round(time.Second).String()
}

func took(ms int64) string {
	if ms == 0 {
		return "<1 ms"
	}
	return fmt.Sprintf("%d ms", ms)
}

// calls says in words what the breaker does.
func calls(s broker.State) string {
	switch s {
	case broker.Closed:
		return "going through (breaker closed)"
	case broker.HalfOpen:
		return "one is tried (breaker half open)"
	case broker.Open:
		return "held back (breaker open)"
	}
	return string(s)
}

// describe says in a few words what was to be bought.
func describe(p purchase.Purchase) string {
	o := p.Order
	if o.Notional.Valid {
		return fmt.Sprintf("%s for %s %s", o.Symbol, money.Format(o.Notional.Decimal), o.Currency)
	}
	return fmt.Sprintf("%s %s at %s %s", money.Format(o.Quantity.Decimal), o.Symbol, money.Format(o.LimitPrice.Decimal), o.Currency)
}

// render writes a whole page or, where that fails, none of it.
func render(w http.ResponseWriter, status int, name string, data any) {
	var out bytes.Buffer
	if err := pages[name].Execute(&out, data); err != nil {
		panic(fmt.Errorf("render %s: %w", name, err))
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(out.Bytes())
}

func style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=300")
	http.ServeFileFS(w, r, files, "pages/style.css")
}

// view is what every page behind the login has.
type view struct {
	Operator string
	HasRiver bool
	Message  string
	Trouble  string
}

func (c *console) view(ctx context.Context) view {
	return view{Operator: auth.From(ctx).KeyID, HasRiver: c.River != nil}
}

// page is a handler that answers with a page in any case.
type page func(w http.ResponseWriter, r *http.Request)

func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p(w, r) }

type messageView struct {
	view
	Title string
}

func (c *console) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	v := messageView{view: c.view(r.Context()), Title: title}
	v.Trouble = text
	render(w, status, "message", v)
}

func (c *console) nothing(w http.ResponseWriter, r *http.Request) {
	c.message(w, r, http.StatusNotFound, "Not found", "There is no such page.")
}

// fail shows an error that the operator can do nothing about.
func (c *console) fail(w http.ResponseWriter, r *http.Request, err error) {
	c.Log.ErrorContext(r.Context(), "console page failed", "path", r.URL.Path, "error", err)
	w.Header().Set("Retry-After", "2")
	c.message(w, r, http.StatusServiceUnavailable, "Not available", "The database could not be asked. Try again in a moment.")
}
