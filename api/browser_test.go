package api_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"riverqueue.com/riverui"

	"holdfast/api"
)

// tab is a page in a real browser, and what it complains of.
type tab struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	bad []string
}

func openTab(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)),
		chromedp.NoSandbox, chromedp.WindowSize(1200, 1000))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		// River's page tries whether it may evaluate text, and does without.
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "'unsafe-eval'") {
			b.bad = append(b.bad, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		b.bad = append(b.bad, e.ExceptionDetails.Text)
	}
}

func (b *tab) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.bad, "\n")
}

// do takes steps, within a busy machine's patience.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.complaints())
	}
}

// wantText asks an element for words.
func (b *tab) wantText(element chromedp.CSS, words ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text(element))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			b.t.Errorf("%s lacks %q:\n%s", element, word, text)
		}
	}
}

// wantFits asks whether all of an element can be seen without scrolling it sideways.
func (b *tab) wantFits(element string) {
	b.t.Helper()
	hidden, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](
		`Math.max(...[...document.querySelectorAll("`+element+`")].map(e => e.scrollWidth - e.clientWidth))`))
	if err != nil {
		b.t.Fatal(err)
	}
	if hidden > 0 {
		b.t.Errorf("%d pixels of %s are cut off", hidden, element)
	}
}

// picture keeps what the browser shows where HOLDFAST_TEST_PICTURES names a folder.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("HOLDFAST_TEST_PICTURES")
	if dir == "" {
		return
	}
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), shot, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// findBrowser: a machine that tests every change must have one (make browser).
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no browser: run make browser")
	}
	t.Skip("no browser: run make browser")
	return ""
}

// realRiver is River's own page over the test's database.
func realRiver(t *testing.T, p *api.Params) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	client, err := river.NewClient[pgx.Tx](riverpgxv5.New(p.Pool), &river.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	page, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Prefix: "/river", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	if err := page.Start(ctx); err != nil {
		t.Fatal(err)
	}
	p.River = page
}

// TestConsoleInABrowser walks an operator's way: log in, find the purchase that waits,
// look at its job in River, and resolve it.
func TestConsoleInABrowser(t *testing.T) {
	t.Parallel()
	b := openTab(t)
	w := setup(t, func(p *api.Params) { realRiver(t, p) })
	id := w.review()
	w.buy(order(fields{"symbol": "ERR500"})).wantStatus(202)
	page := "/console/purchases/" + id

	b.do(
		chromedp.Navigate(w.server.URL+"/console/"),
		chromedp.SendKeys(chromedp.CSS(`input[name=key]`), w.operator),
		chromedp.Submit(chromedp.CSS(`input[name=key]`)),
		chromedp.WaitVisible(chromedp.CSS(`a[href="`+page+`"]`)),
	)
	b.picture("overview")
	b.wantFits(".scroll")
	b.wantText("main", "Waiting for a person", "mismatch", "250.00 USD")

	b.do(
		chromedp.Click(chromedp.CSS(`a[href="`+page+`"]`)),
		chromedp.WaitVisible(chromedp.CSS(`textarea[name=note]`)),
	)
	b.picture("purchase")
	b.do(
		chromedp.Click(chromedp.CSS(`a[href^="/river/jobs/"]`)),
		chromedp.WaitVisible(chromedp.Search(`//*[contains(text(), "`+id+`")]`)),
	)
	b.picture("job")
	b.wantText("body", "reconcile_purchase", "Back to Holdfast")

	b.do(
		chromedp.Navigate(w.server.URL+page),
		chromedp.Click(chromedp.CSS(`input[value=completed]`)),
		chromedp.SendKeys(chromedp.CSS(`textarea[name=note]`), "asked on the phone"),
		chromedp.Submit(chromedp.CSS(`textarea[name=note]`)),
		chromedp.WaitVisible(chromedp.CSS(`.notice.good`)),
	)
	b.picture("resolved")
	b.wantText(".timeline", "asked on the phone", "COMPLETED")
	b.do(chromedp.Navigate(w.server.URL + "/docs"))
	b.picture("docs")
	if said := b.complaints(); said != "" {
		t.Errorf("the browser complains: %q", said)
	}
	w.get("/v1/purchases/"+id, w.client).wantPurchase(200, "completed").wantText("evidence", "operator")
}
