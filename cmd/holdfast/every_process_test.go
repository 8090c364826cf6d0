package main

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// within is how soon a change in one process, or by a command, must take effect in every
// process.
const within = 5 * time.Second

// follows polls until the condition holds, which must be soon.
func follows(t *testing.T, what string, since time.Time, so func() bool) {
	t.Helper()
	for !so() {
		if time.Since(since) > within {
			t.Fatalf("%s: not within %s", what, within)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// A revoked key stops working on every process, with its streams, its tickets and its sessions;
// an expired one too; and the history names the operator's key.
func TestKeysOnEveryProcess(t *testing.T) {
	t.Parallel()
	w := setup(t)
	nodes := []*serving{launch(t, w.settings, "--role", "api"), launch(t, w.settings, "--role", "api")}
	clientKey, operatorKey := keyNamed(t, w, "client"), keyNamed(t, w, "operator")

	_, unknown := nodes[0].buy(w.client, "acct-1", "ERR500-FOREVER", "k1")
	resolution := `{"outcome":"rejected","note":"asked the desk"}`
	if a, err := nodes[1].call(http.MethodPost, "/v1/purchases/"+unknown.ID+"/resolution", w.operator, resolution); err != nil || a.status != http.StatusOK {
		t.Fatalf("resolve: %d, %v", a.status, err)
	}
	if a, err := nodes[0].call(http.MethodGet, "/v1/purchases/"+unknown.ID+"/history", w.client, ""); err != nil || !strings.Contains(a.body, `"actor":"operator:`+operatorKey.ID+`"`) {
		t.Errorf("history does not name %s: %v %s", operatorKey.ID, err, a.body)
	}

	short := lastLine(must(t, w.settings, "key", "create", "--scope", "client", "--account", "acct-1", "--expires-in", "2s"))
	streams := []<-chan struct{}{nodes[0].openStream(w.client), nodes[1].openStream(w.client), nodes[1].openStream(short)}
	session := nodes[0].login(w.operator)
	for _, n := range nodes {
		if n.statusWith(w.client) != http.StatusOK || n.statusOfPage(session) != http.StatusOK {
			t.Fatal("a key or a session is invalid from the start")
		}
	}
	follows(t, "the short key has expired", time.Now(), func() bool { return nodes[0].statusWith(short) == http.StatusUnauthorized })

	must(t, w.settings, "key", "revoke", clientKey.ID)
	must(t, w.settings, "key", "revoke", operatorKey.ID)
	revoked := time.Now()
	for i, n := range nodes {
		follows(t, "the client's key is dead", revoked, func() bool { return n.statusWith(w.client) == http.StatusUnauthorized })
		follows(t, "the operator's session is dead", revoked, func() bool { return n.statusOfPage(session) == http.StatusUnauthorized })
		follows(t, "its stream has ended", revoked, func() bool { return hasEnded(streams[i]) })
	}
	follows(t, "the expired key's stream has ended", revoked, func() bool { return hasEnded(streams[2]) })

	nodes[0].stop()
	if keyNamed(t, w, "client").LastUsed == nil {
		t.Error("last_used_at is not set")
	}
}

// A pause requested from one process takes effect in every process, and so does a resume.
func TestSwitchesOnEveryProcess(t *testing.T) {
	t.Parallel()
	w := setup(t)
	nodes := []*serving{launch(t, w.settings, "--role", "api"), launch(t, w.settings, "--role", "api")}
	operator := nodes[0].talk(w.operator)
	must(t, operator, "switch", "pause", "intake", "--note", "the broker asked")
	switched := time.Now()
	for _, n := range nodes {
		follows(t, "paused", switched, func() bool { return n.tries(w.client) == http.StatusServiceUnavailable })
	}
	var summary struct{ Switches map[string]string }
	nodes[1].get("/v1/summary", w.operator, &summary)
	if summary.Switches["intake"] != "off" || summary.Switches["passes"] != "on" {
		t.Errorf("the summary shows %v", summary.Switches)
	}
	must(t, operator, "switch", "resume", "intake")
	switched = time.Now()
	for _, n := range nodes {
		follows(t, "resumed", switched, func() bool { return n.tries(w.client) == http.StatusCreated })
	}
}

type keyShown struct {
	ID       string     `json:"id"`
	Prefix   string     `json:"prefix"`
	Scope    string     `json:"scope"`
	LastUsed *time.Time `json:"last_used_at"`
}

// keyNamed is the world's first key of a scope.
func keyNamed(t *testing.T, w *world, scope string) keyShown {
	t.Helper()
	var list struct{ Data []keyShown }
	decode(t, must(t, w.settings, "key", "list", "--json"), &list)
	for _, key := range list.Data {
		if key.Scope == scope {
			return key
		}
	}
	t.Fatalf("no %s key in %+v", scope, list)
	return keyShown{}
}

// statusWith returns the status with which a process answers a key, 0 if there is no response.
func (s *serving) statusWith(key string) int {
	a, _ := s.call(http.MethodGet, "/v1/accounts/acct-1", key, "")
	return a.status
}

// tries makes a small purchase and returns the status of the response.
func (s *serving) tries(key string) int {
	a, _ := s.call(http.MethodPost, "/v1/purchases", key, `{"account_id":"acct-1","symbol":"AAPL","notional":"0.01"}`,
		"Idempotency-Key", uuid.NewString())
	return a.status
}

// login opens an operator's session and returns its cookie.
func (s *serving) login(key string) string {
	s.t.Helper()
	once := &http.Client{Transport: web.Transport, Timeout: waitTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	got, err := once.PostForm("http://"+s.addr+"/console/login", url.Values{"key": {key}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	for _, c := range got.Cookies() {
		return c.Name + "=" + c.Value
	}
	s.t.Fatal(errors.New("no cookie"))
	return ""
}

// statusOfPage requests the console without accepting HTML, so that there is no redirect.
func (s *serving) statusOfPage(cookie string) int {
	request, _ := http.NewRequest(http.MethodGet, "http://"+s.addr+"/console/", nil)
	request.Header.Set("Cookie", cookie)
	request.Header.Set("Accept", "text/css")
	got, err := web.Do(request)
	if err != nil {
		return 0
	}
	got.Body.Close()
	return got.StatusCode
}

func hasEnded(stream <-chan struct{}) bool {
	select {
	case <-stream:
		return true
	default:
		return false
	}
}
