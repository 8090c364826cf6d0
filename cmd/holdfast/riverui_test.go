package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/testkit/pgtest"
	"holdfast/sandbox"
)

// riverUI is an operator in River UI: it sends what a browser would send, with a session.
type riverUI struct {
	*world
	t       *testing.T
	api     *serving
	browser *http.Client
	pool    *pgxpool.Pool
	bought  []uncertain
}

// uncertain is a purchase that became UNKNOWN, and the status in which it must end.
type uncertain struct {
	name, id, status string
	places           int
}

// Three ways to become UNKNOWN: bought already, bought by a replay, and not bought.
var uncertainties = []struct {
	symbol, status string
	places         int
}{
	{"DROP-BOOKED", "COMPLETED", 1}, {"DROP-LOST", "COMPLETED", 2}, {"REJECT-REPLAY", "REJECTED", 2},
}

// riverJob is a job in River UI's format.
type riverJob struct {
	ID      int64  `json:"id"`
	Args    string `json:"args"`
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
}

var (
	riverActions  = []string{"cancel", "delete", "retry"}
	waitingStates = []string{"scheduled", "available", "retryable", "pending"}
	endedStates   = []string{"completed", "cancelled", "discarded"}
)

// Whatever an operator does to a job in River UI, in each of its states, the purchase ends
// according to the broker's orders, and nothing is bought twice.
func TestWhateverIsDoneInRiverUI(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_BROKER_TIMEOUT=5s", "HOLDFAST_PENDING_GRACE=10s", "HOLDFAST_RESCUE_AFTER=14s",
		"HOLDFAST_RETRY_MAX_ATTEMPTS=200", "HOLDFAST_BREAKER_FAILURES=1000", "HOLDFAST_BROKER_RATE=1000")
	u := newRiverUI(t, w)
	u.refusesStrangers()
	for _, state := range slices.Concat(waitingStates, endedStates) {
		for _, action := range riverActions {
			u.actOnWaiting(action, state)
		}
	}
	u.rerunWithTwin()
	launch(t, w.settings, "--role", "worker")
	u.awaitEnds()
	u.actOnRunning()
	u.awaitEnds()
	u.actOnCompleted()
	u.settle()
}

// newRiverUI logs in at an api process. No worker runs yet, so that a job stays as it is.
func newRiverUI(t *testing.T, w *world) *riverUI {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u := &riverUI{
		world: w, t: t, api: launch(t, w.settings, "--role", "api"),
		pool: pgtest.Pool(t, strings.TrimPrefix(w.settings[0], "HOLDFAST_DATABASE_URL=")),
		browser: &http.Client{
			Jar: jar, Transport: web.Transport, Timeout: waitTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	form := url.Values{"key": {w.operator}}.Encode()
	if a := u.send(http.MethodPost, "/console/login", form, "Content-Type", "application/x-www-form-urlencoded"); a.status != http.StatusSeeOther {
		t.Fatalf("login: %d %s", a.status, a.body)
	}
	return u
}

func (u *riverUI) send(method, path, body string, headers ...string) answer {
	u.t.Helper()
	request, err := http.NewRequestWithContext(u.t.Context(), method, "http://"+u.api.addr+path, strings.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	got, err := u.browser.Do(request)
	if err != nil {
		u.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, string(text)}
}

// act presses a button; ids go as the strings that the page sends.
func (u *riverUI) act(action string, id int64, headers ...string) answer {
	u.t.Helper()
	return u.send(http.MethodPost, "/river/api/jobs/"+action, idsOf(id), headers...)
}

func idsOf(id int64) string { return fmt.Sprintf(`{"ids":["%d"]}`, id) }

// expect performs an action that must be answered with status.
func (u *riverUI) expect(status int, what, action string, id int64) {
	u.t.Helper()
	if a := u.act(action, id); a.status != status {
		u.t.Errorf("%s: %s answers %d, want %d: %s", what, action, a.status, status, a.body)
	}
}

// state is a job's state, or "deleted". brokerKey is the purchase's key at the broker.
func (u *riverUI) brokerKey(id string) (key string) {
	u.t.Helper()
	if err := u.pool.QueryRow(u.t.Context(), "SELECT broker_key FROM transaction_history WHERE id = $1", id).Scan(&key); err != nil {
		u.t.Fatal(err)
	}
	return key
}

func (u *riverUI) state(id int64) string {
	u.t.Helper()
	a := u.send(http.MethodGet, fmt.Sprintf("/river/api/jobs/%d", id), "")
	if a.status == http.StatusNotFound {
		return "deleted"
	}
	var job riverJob
	u.decode(a, &job)
	return job.State
}

func (u *riverUI) expectState(what string, id int64, want string) {
	u.t.Helper()
	if state := u.state(id); state != want {
		u.t.Errorf("%s: the job is %s, want %s", what, state, want)
	}
}

func (u *riverUI) decode(a answer, value any) {
	u.t.Helper()
	if a.status != http.StatusOK {
		u.t.Fatalf("river answers %d %s", a.status, a.body)
	}
	decode(u.t, a.body, value)
}

// find returns the purchase's job if it is in one of states.
func (u *riverUI) find(purchase string, states ...string) (riverJob, bool) {
	u.t.Helper()
	for _, state := range states {
		var list struct {
			Data []riverJob `json:"data"`
		}
		u.decode(u.send(http.MethodGet, "/river/api/jobs?limit=1000&kinds=reconcile_purchase&state="+state, ""), &list)
		for _, job := range list.Data {
			if strings.Contains(job.Args, purchase) {
				return job, true
			}
		}
	}
	return riverJob{}, false
}

// awaitJob waits for the purchase to have a job in one of states.
func (u *riverUI) awaitJob(purchase string, states ...string) riverJob {
	u.t.Helper()
	var job riverJob
	eventually(u.t, "the job of "+purchase, func() error {
		var found bool
		if job, found = u.find(purchase, states...); !found {
			return fmt.Errorf("none is %v", states)
		}
		return nil
	})
	return job
}

// buy makes a purchase whose outcome is unknown, each of another kind than the previous one.
func (u *riverUI) buy(name string) uncertain {
	u.t.Helper()
	kind := uncertainties[len(u.bought)%len(uncertainties)]
	a, p := u.api.buy(u.client, "acct-1", kind.symbol, "k-"+name)
	if a.status != http.StatusAccepted || p.Status != "UNKNOWN" {
		u.t.Fatalf("%s: %d %s", name, a.status, a.body)
	}
	bought := uncertain{name, p.ID, kind.status, kind.places}
	u.bought = append(u.bought, bought)
	return bought
}

// refusesStrangers: without a session every action is refused, even with the operator's key,
// and with a session if it comes from another site's page.
func (u *riverUI) refusesStrangers() {
	u.t.Helper()
	p := u.buy("strangers")
	job := u.awaitJob(p.id, waitingStates...)
	for _, action := range riverActions {
		a, err := u.api.call(http.MethodPost, "/river/api/jobs/"+action, u.operator, idsOf(job.ID))
		if err != nil || a.status != http.StatusUnauthorized {
			u.t.Errorf("%s without a session: %d, %v: %s", action, a.status, err, a.body)
		}
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://elsewhere.example"}} {
			if a := u.act(action, job.ID, header...); a.status != http.StatusForbidden {
				u.t.Errorf("%s with %v: %d %s", action, header, a.status, a.body)
			}
		}
	}
	if a, err := u.api.call(http.MethodGet, "/river/api/jobs", u.operator, ""); err != nil || a.status != http.StatusUnauthorized {
		u.t.Errorf("read without a session: %d, %v: %s", a.status, err, a.body)
	}
	u.expectState("refused", job.ID, job.State)
}

// actOnWaiting acts on a job that no worker has. The job would wait for an hour, so the
// purchase is not ended by it.
func (u *riverUI) actOnWaiting(action, state string) {
	u.t.Helper()
	what := action + "-" + state
	p := u.buy(what)
	u.put(u.awaitJob(p.id, waitingStates...).ID, state)
	job, found := u.find(p.id, state)
	if !found {
		u.t.Fatalf("%s: River's page does not list the job", what)
	}
	u.expect(http.StatusOK, what, action, job.ID)
	want := map[string]string{"cancel": "cancelled", "delete": "deleted", "retry": "available"}[action]
	if action == "cancel" && slices.Contains(endedStates, state) {
		want = state
	}
	u.expectState(what, job.ID, want)
}

// put sets a job's state directly, because some states only occur after a fault.
func (u *riverUI) put(id int64, state string) {
	u.t.Helper()
	_, err := u.pool.Exec(u.t.Context(), `UPDATE river_job SET state = $2::river_job_state,
		scheduled_at = now() + interval '1 hour', finalized_at = CASE WHEN $3 THEN now() END WHERE id = $1`,
		id, state, slices.Contains(endedStates, state))
	if err != nil {
		u.t.Fatal(err)
	}
}

// rerunWithTwin: a cancelled job cannot be rerun while the job that replaced it is active.
func (u *riverUI) rerunWithTwin() {
	u.t.Helper()
	p := u.buy("twin")
	first := u.awaitJob(p.id, waitingStates...)
	u.expect(http.StatusOK, "twin", "cancel", first.ID)
	eventually(u.t, "the second job", func() error {
		u.api.get("/v1/purchases/"+p.id, u.client, &purchaseView{})
		if _, found := u.find(p.id, waitingStates...); !found {
			return errors.New("there is none")
		}
		return nil
	})
	u.expect(http.StatusConflict, "twin", "retry", first.ID)
	u.expectState("twin", first.ID, "cancelled")
}

// actOnRunning acts on jobs whose lookup the broker does not answer. River refuses to delete
// such a job, and does not change it instead of running it again.
func (u *riverUI) actOnRunning() {
	u.t.Helper()
	if err := u.broker.Script(sandbox.Response{Call: "lookup", Fault: sandbox.FaultStall, Times: 1000}); err != nil {
		u.t.Fatal(err)
	}
	for action, status := range map[string]int{"cancel": http.StatusOK, "delete": http.StatusBadRequest, "retry": http.StatusOK} {
		p := u.buy(action + "-running")
		eventually(u.t, "the lookup of "+p.name, func() error {
			if u.broker.Ledger(u.brokerKey(p.id)).Data[0].Lookups == 0 {
				return errors.New("there is none")
			}
			return nil
		})
		job := u.awaitJob(p.id, "running")
		u.expect(status, p.name, action, job.ID)
		if action == "cancel" {
			u.awaitState(job.ID, "cancelled")
		} else {
			u.expectState(p.name, job.ID, "running")
		}
	}
	u.clearScript()
}

func (u *riverUI) clearScript() {
	u.t.Helper()
	recorder := httptest.NewRecorder()
	u.broker.Handler().ServeHTTP(recorder, httptest.NewRequestWithContext(u.t.Context(), http.MethodDelete, "/control/script", nil))
	if recorder.Code != http.StatusNoContent {
		u.t.Fatalf("clear script: %d %s", recorder.Code, recorder.Body)
	}
}

func (u *riverUI) awaitState(id int64, want string) {
	u.t.Helper()
	eventually(u.t, "the job's state", func() error {
		if state := u.state(id); state != want {
			return fmt.Errorf("it is %s, want %s", state, want)
		}
		return nil
	})
}

// actOnCompleted: the job of a final purchase has no effect, whatever is done to it.
func (u *riverUI) actOnCompleted() {
	u.t.Helper()
	p := u.bought[0]
	before := u.api.awaitStatus(u.client, p.id, p.status)
	job := u.awaitJob(p.id, "completed")
	calls := u.broker.Ledger(u.brokerKey(p.id)).Data[0]
	u.expect(http.StatusOK, "completed", "cancel", job.ID)
	u.expectState("cancelled when completed", job.ID, "completed")
	u.expect(http.StatusOK, "completed", "retry", job.ID)
	eventually(u.t, "the second run", func() error {
		if again, found := u.find(p.id, "completed"); !found || again.Attempt <= job.Attempt {
			return fmt.Errorf("the job is %+v", again)
		}
		return nil
	})
	u.expect(http.StatusOK, "completed", "delete", job.ID)
	u.expectState("deleted when completed", job.ID, "deleted")
	if after := u.api.awaitStatus(u.client, p.id, p.status); after.Version != before.Version {
		u.t.Errorf("the purchase changed: %+v", after)
	}
	if now := u.broker.Ledger(u.brokerKey(p.id)).Data[0]; now.Places != calls.Places || now.Lookups != calls.Lookups {
		u.t.Errorf("the broker was asked again: %+v", now)
	}
}

// awaitEnds reads no purchase before all are final: reading one would create the job that the
// workers must create themselves.
func (u *riverUI) awaitEnds() {
	u.t.Helper()
	eventually(u.t, "the ends", func() error {
		var summary struct {
			Counts map[string]int `json:"counts"`
		}
		u.api.get("/v1/summary", u.operator, &summary)
		if open := summary.Counts["PENDING"] + summary.Counts["UNKNOWN"]; open > 0 {
			return fmt.Errorf("%d purchases are open", open)
		}
		return nil
	})
	for _, p := range u.bought {
		var now purchaseView
		u.api.get("/v1/purchases/"+p.id, u.operator, &now)
		if now.Status != p.status {
			u.t.Errorf("%s is %s, want %s", p.name, now.Status, p.status)
		}
	}
}

// settle compares every order with the broker's, and the money to the cent.
func (u *riverUI) settle() {
	u.t.Helper()
	(&outage{world: u.world, t: u.t, nodes: []*serving{u.api}}).settle(len(u.bought))
	completed := 0
	for _, p := range u.bought {
		if places := u.broker.Ledger(u.brokerKey(p.id)).Data[0].Places; places != p.places {
			u.t.Errorf("%s: the broker was given the order %d times, want %d", p.name, places, p.places)
		}
		if p.status == "COMPLETED" {
			completed++
		}
	}
	if orders := u.broker.Ledger("").Orders; orders != completed {
		u.t.Errorf("the broker has %d orders, want %d", orders, completed)
	}
	var acc accountView
	u.api.get("/v1/accounts/acct-1", u.client, &acc)
	spent := 250 * completed
	if want := (accountView{fmt.Sprintf("%d.00", 10000-spent), "0.00", fmt.Sprintf("%d.00", spent), "10000.00"}); acc != want {
		u.t.Errorf("account = %+v, want %+v", acc, want)
	}
}
