package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"holdfast/api"
)

// page is the one of docs/events.md, on the origin that serves it.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```html\n")
	html, _, found := strings.Cut(rest, "```")
	here := strings.Replace(html, "'https://holdfast.example.com'", "location.origin", 1)
	if !found || here == html {
		t.Fatal("docs/events.md has no page any more")
	}
	return here
}

// site is a person's own server: the page, tickets for it, and Holdfast behind one origin.
func (w *world) site(t *testing.T) *httptest.Server {
	t.Helper()
	html := page(t)
	target, err := url.Parse(w.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(html))
	})
	mux.HandleFunc("POST /holdfast-ticket", func(rw http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/v1/stream-tickets"
		r.Header.Set("Authorization", "Bearer "+w.client)
		httputil.NewSingleHostReverseProxy(target).ServeHTTP(rw, r)
	})
	mux.Handle("GET /v1/events", httputil.NewSingleHostReverseProxy(target))
	site := httptest.NewServer(mux)
	t.Cleanup(func() { site.CloseClientConnections(); site.Close() })
	return site
}

// The page of the documentation shows each event once, in a real browser, though its
// connection is cut.
func TestPageOfTheDocumentation(t *testing.T) {
	t.Parallel()
	b := openTab(t)
	w := live(t)
	site, streams := w.site(t), w.params.Streams.(*api.Streams)
	b.do(chromedp.Navigate(site.URL))
	soon(t, "the page listens", func() bool { return streams.Open() == 1 })
	var want []string
	for i, symbol := range []string{"AAPL", "REJECT", "AAPL", "AAPL"} {
		if i == 2 {
			soon(t, "the page has a place to go on from", func() bool { return len(b.shown(t)) == i })
			site.CloseClientConnections()
			soon(t, "the page is cut off", func() bool { return streams.Open() == 0 })
		}
		a := w.buy(order(fields{"symbol": symbol}))
		want = append(want, a.text("id")+": "+a.text("outcome"))
	}
	soon(t, "all is shown", func() bool { return len(b.shown(t)) >= len(want) })
	if got, all := strings.Join(b.shown(t), "\n"), strings.Join(want, "\n"); got != all {
		t.Errorf("the page shows\n%s\nwant\n%s", got, all)
	}
}

// shown are the events on the page.
func (b *tab) shown(t *testing.T) []string {
	t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
		`[...document.querySelectorAll("#events li")].map(e => e.textContent).join("\n")`))
	if err != nil {
		t.Fatal(err)
	}
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// A purchase's transaction tells nobody of its event or job: a commit that does takes a lock of
// the whole cluster's. What is told comes later, from the relay, which does not run here.
func TestPurchaseNotifiesNobody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	listener, err := pgx.Connect(t.Context(), w.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close(t.Context())
	if _, err := listener.Exec(t.Context(), `LISTEN holdfast_events; LISTEN "public.river_insert"`); err != nil {
		t.Fatal(err)
	}
	for _, symbol := range []string{"AAPL", "REJECT", "PRICE-BELOW-LIMIT", "ERR500"} {
		w.buy(order(fields{"symbol": symbol}))
	}
	if _, err := w.pool.Exec(t.Context(), "SELECT pg_notify('holdfast_events', 'the test')"); err != nil {
		t.Fatal(err)
	}
	if n, err := listener.WaitForNotification(t.Context()); err != nil || n.Payload != "the test" {
		t.Errorf("heard %+v, %v", n, err)
	}
}
