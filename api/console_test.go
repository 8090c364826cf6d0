package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"holdfast/api"
)

// browser keeps the cookie of one session.
type browser struct {
	*world
	cookie *http.Cookie
}

func riverPage(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("river " + r.URL.Path)) }

func console(t *testing.T) *browser {
	t.Helper()
	b := &browser{world: setup(t, func(p *api.Params) { p.River = http.HandlerFunc(riverPage) })}
	b.login(b.operator)
	return b
}

func (b *browser) login(key string) *answer {
	b.t.Helper()
	a := b.form("/console/login", url.Values{"key": {key}})
	for _, line := range a.header.Values("Set-Cookie") {
		cookie, err := http.ParseSetCookie(line)
		if err != nil {
			b.t.Fatal(err)
		}
		b.cookie = cookie
	}
	return a
}

func (b *browser) header() http.Header {
	h := http.Header{}
	if b.cookie != nil {
		h.Set("Cookie", b.cookie.Name+"="+b.cookie.Value)
	}
	return h
}

func (b *browser) form(path string, values url.Values, header ...string) *answer {
	b.t.Helper()
	h := b.header()
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return b.do(request{method: "POST", path: path, body: values.Encode(), header: h})
}

func (b *browser) open(path string) *answer {
	b.t.Helper()
	return b.get(path, "", b.header())
}

func (a *answer) wantOnPage(parts ...string) *answer {
	a.t.Helper()
	for _, part := range parts {
		if !strings.Contains(string(a.body), part) {
			a.t.Errorf("the page lacks %q:\n%s", part, a.body)
		}
	}
	return a
}

func (a *answer) wantNotOnPage(part string) {
	a.t.Helper()
	if strings.Contains(string(a.body), part) {
		a.t.Errorf("the page has %q:\n%s", part, a.body)
	}
}

func TestConsoleLogin(t *testing.T) {
	t.Parallel()
	b := console(t)
	t.Run("CookieIsOutOfReach", func(t *testing.T) {
		c := b.cookie
		if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" {
			t.Errorf("cookie %+v", c)
		}
		a := b.form("/console/login", url.Values{"key": {b.operator}}, "X-Forwarded-Proto", "https")
		if !strings.Contains(a.header.Get("Set-Cookie"), "; Secure") {
			t.Errorf("cookie behind TLS: %s", a.header.Get("Set-Cookie"))
		}
	})
	t.Run("OnlyAnOperatorsKey", func(t *testing.T) {
		for _, key := range []string{b.client, "nothing", ""} {
			a := b.form("/console/login", url.Values{"key": {key}}).wantStatus(401).wantOnPage("This is not an operator")
			if a.header.Get("Set-Cookie") != "" {
				t.Error("a cookie all the same")
			}
		}
		b.form("/console/login", url.Values{"key": {environmentKey}}).wantStatus(303).wantHeader("Location", "/console/")
	})
	t.Run("NextLeadsNowhereElse", func(t *testing.T) {
		for next, want := range map[string]string{
			"/console/purchases?status=UNKNOWN": "/console/purchases?status=UNKNOWN", "/river/jobs/7": "/river/jobs/7",
			"https://evil.example/console/": "/console/", "//evil.example/console/": "/console/", "/\\evil.example": "/console/",
			"/v1/purchases": "/console/", "": "/console/", "javascript:alert(1)": "/console/",
		} {
			b.form("/console/login", url.Values{"key": {b.operator}, "next": {next}}).wantStatus(303).wantHeader("Location", want)
		}
	})
	t.Run("WithoutASession", func(t *testing.T) {
		b.get("/console/", "").wantStatus(303).wantHeader("Location", "/console/login?next=%2Fconsole%2F")
		b.get("/river/", "").wantStatus(303).wantHeader("Location", "/console/login?next=%2Friver%2F")
		b.get("/river/jobs/1", "").wantStatus(303)
		b.get("/console/login", "").wantStatus(200).wantOnPage(`name="key"`)
		b.get("/console/style.css", "").wantStatus(200)
		b.get("/river/api/jobs", "").wantProblem(401, "unauthorized")
		b.get("/river/assets/main.js", "").wantProblem(401, "unauthorized")
		b.get("/console/", "", http.Header{"Accept": {"application/json"}}).wantProblem(401, "unauthorized")
		b.do(request{method: "POST", path: "/console/switches/intake"}).wantProblem(401, "unauthorized").
			wantText("detail", "there is no operator session, or it has ended: log in at /console/login")
		b.do(request{method: "POST", path: "/river/api/jobs/cancel"}).wantProblem(401, "unauthorized")
		b.get("/console/", b.operator).wantStatus(303)
	})
	t.Run("CrossOriginWritesAreRefused", func(t *testing.T) {
		for _, path := range []string{"/river/api/jobs/cancel", "/console/switches/intake", "/console/login", "/console/logout"} {
			b.form(path, url.Values{"key": {b.operator}, "paused": {"true"}}, "Origin", "http://evil.example").wantProblem(403, "forbidden")
			b.form(path, url.Values{"key": {b.operator}, "paused": {"true"}}, "Sec-Fetch-Site", "cross-site").wantProblem(403, "forbidden")
		}
		b.form("/river/api/jobs/cancel", nil, "Origin", b.server.URL).wantStatus(200)
	})
	t.Run("RiverIsAskedForTextOnly", func(t *testing.T) {
		b.open("/river/api/queues/%00").wantStatus(404)
		b.open("/river/%ff").wantStatus(404)
		b.open("/river/api/queues/%C3%A9").wantStatus(200)
	})
	t.Run("RiverIsThereUnstripped", func(t *testing.T) {
		b.open("/river/").wantStatus(200).wantOnPage("river /river/")
		b.open("/river/api/jobs").wantStatus(200).wantOnPage("river /river/api/jobs")
	})
	t.Run("Logout", func(t *testing.T) {
		b.form("/console/logout", nil).wantStatus(303).wantHeader("Location", "/console/login")
		b.open("/console/").wantStatus(303)
	})
}

func TestConsolePages(t *testing.T) {
	t.Parallel()
	b := console(t)
	review := b.review()
	unknown := b.buy(order(fields{"symbol": "ERR500"})).wantStatus(202).text("id")
	evil := `<script>alert(1)</script>`
	if err := b.sandbox.Script(*refusal(400, evil)); err != nil {
		t.Fatal(err)
	}
	refused := b.buy(order(nil)).wantStatus(400).text("id")

	t.Run("OverviewShowsWhatNeedsAPerson", func(t *testing.T) {
		b.open("/console/").wantStatus(200).wantOnPage(review, unknown, "MANUAL_REVIEW", "mismatch", "250.00 USD", "going through (breaker closed)")
		b.open("/console/").wantOnPage("<dt>Held in review</dt><dd>250.00 USD </dd>", "<dt>Held in unknown</dt><dd>250.00 USD </dd>")
	})
	t.Run("LoadsNothingFromElsewhereAndNoScript", func(t *testing.T) {
		for _, path := range []string{"/console/", "/console/purchases", "/console/purchases/" + review, "/console/login"} {
			a := b.open(path).wantStatus(200)
			for _, bad := range []string{"<script", "http://", "https://", "style=\"", "onclick"} {
				if strings.Contains(string(a.body), bad) {
					t.Errorf("%s contains %q", path, bad)
				}
			}
		}
	})
	t.Run("PurchaseWithItsTimelineAndJob", func(t *testing.T) {
		b.open("/console/purchases/"+review).wantStatus(200).wantOnPage("10 WRONG-QUANTITY at 25.00 USD", "place", "lookup",
			`action="/console/purchases/`+review+`/resolution"`, `href="/river/jobs/`)
		b.open("/console/purchases/" + refused).wantStatus(200).wantOnPage("&lt;script&gt;alert(1)&lt;/script&gt;")
		b.open("/console/purchases/" + uuid.NewString()).wantStatus(404)
		b.open("/console/purchases/x").wantStatus(404)
		b.open("/console/nothing").wantStatus(404)
	})
	t.Run("PurchaseShowsTheKeyThatTheBrokerKnows", func(t *testing.T) {
		b.open("/console/purchases/" + review).wantOnPage(b.brokerKey(review))
	})
	t.Run("SaysNothingThatIsNotSo", func(t *testing.T) {
		for _, word := range []string{"resolved", "reconciled", "switched", "x"} {
			b.open("/console/purchases/" + review + "?said=" + word).wantNotOnPage(`role="status"`)
		}
		b.open("/console/?said=resolved").wantNotOnPage(`role="status"`)
	})
	t.Run("List", func(t *testing.T) {
		b.open("/console/purchases?status=UNKNOWN").wantStatus(200).wantOnPage(unknown)
		b.open("/console/purchases?account_id=%22%3E%3Cb%3E&status=%00&before=x").wantStatus(200).wantOnPage("None.", "&#34;&gt;&lt;b&gt;")
		b.open("/console/purchases?status=FOO").wantStatus(200).wantOnPage("no such status", unknown)
		b.open("/console/purchases?account_id=%00%ff").wantStatus(200)
		b.open("/console/purchases?id="+review).wantStatus(303).wantHeader("Location", "/console/purchases/"+review)
		b.open("/console/purchases?id=x").wantStatus(200).wantOnPage("no purchase&#39;s id")
	})
	t.Run("Switch", func(t *testing.T) {
		b.form("/console/switches/intake", url.Values{"paused": {"true"}, "note": {"noon"}}).wantStatus(303)
		b.buy(order(nil)).wantProblem(503, "unavailable")
		b.open("/console/?said=switched").wantOnPage("paused", "Resume", "within five seconds")
		b.form("/console/switches/intake", url.Values{"paused": {"false"}}).wantStatus(303)
		b.buy(order(fields{"quantity": "1"})).wantStatus(201)
		b.form("/console/switches/other", url.Values{"paused": {"true"}}).wantStatus(404)
		b.form("/console/switches/intake", url.Values{"paused": {"perhaps"}}).wantStatus(404)
	})
	t.Run("ResolveWithAFault", func(t *testing.T) {
		path := "/console/purchases/" + review + "/resolution"
		for trouble, form := range map[string]url.Values{
			"Choose an outcome":  {"note": {"n"}},
			"Say in the note":    {"outcome": {"completed"}},
			"has no cost":        {"outcome": {"rejected"}, "note": {"n"}, "cost": {"1"}},
			"The cost":           {"outcome": {"completed"}, "note": {"n"}, "cost": {"1e3"}},
			"order id must be":   {"outcome": {"completed"}, "note": {"n"}, "order_id": {"a b"}},
			"must be plain text": {"outcome": {"completed"}, "note": {"a\x00b"}},
		} {
			b.form(path, form).wantStatus(400).wantOnPage(trouble)
		}
		b.open("/console/purchases/" + review).wantOnPage("MANUAL_REVIEW")
	})
	t.Run("ResolveAndSayItAgain", func(t *testing.T) {
		path := "/console/purchases/" + review + "/resolution"
		form := url.Values{"outcome": {"completed"}, "note": {"asked on the phone"}, "order_id": {"X-1"}, "cost": {"249.99"}}
		b.form(path, form).wantStatus(303).wantHeader("Location", "/console/purchases/"+review+"?said=resolved")
		b.open("/console/purchases/"+review+"?said=resolved").wantOnPage("COMPLETED", "asked on the phone", "249.99 USD", "operator:key_", "Your word and your note",
			`X-1 <span class="dim">as settled by an operator</span>`).wantNotOnPage("Status 200, order id")
		form.Set("outcome", "rejected")
		form.Del("cost")
		b.form(path, form).wantStatus(409).wantOnPage("settled already")
	})
	t.Run("Reconcile", func(t *testing.T) {
		b.form("/console/purchases/"+unknown+"/reconciliation", nil).wantStatus(303)
		b.open("/console/purchases/" + unknown + "?said=reconciled").wantOnPage("is due now")
		b.form("/console/purchases/"+review+"/reconciliation", nil).wantStatus(409).wantOnPage("can be reconciled")
		b.form("/console/purchases/"+uuid.NewString()+"/reconciliation", nil).wantStatus(404)
	})
}
