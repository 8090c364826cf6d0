package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// trialSettings are no settings except the test's own directory.
func trialSettings(t *testing.T) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	settings := append([]string{"HOLDFAST_DATA_DIR=" + dir}, quick...)
	// Whatever a killed process leaves behind is removed before the directory.
	t.Cleanup(func() { command(t, settings, "audit") })
	return settings
}

func TestNoSettings(t *testing.T) {
	t.Parallel()
	settings := trialSettings(t)
	first := launch(t, settings)
	client, operator := first.printed("client key: "), first.printed("operator key: ")
	if !strings.Contains(first.out.String(), "export HOLDFAST_URL=http://"+first.addr+" HOLDFAST_API_KEY="+client) {
		t.Errorf("nothing to paste:\n%s", first.out.String())
	}
	a, p := first.buy(client, "demo", "AAPL", "k1")
	if a.status != http.StatusCreated || p.Status != "COMPLETED" {
		t.Errorf("bought: %d %s", a.status, a.body)
	}

	// A second process on the same data dir is refused with a one-line error; a command is not.
	second := command(t, append(settings, "HOLDFAST_ADDR=127.0.0.1:0"), "serve")
	if lines := strings.Count(second.err, "\n"); second.code != exitFailed || lines != 1 || !strings.Contains(second.err, "HOLDFAST_DATABASE_URL") {
		t.Errorf("second: exit %d, %q", second.code, second.err)
	}
	auditHolds(t, settings)

	first.kill()
	// The database of a process that died is not lost, nor are its keys.
	auditHolds(t, settings)
	again := launch(t, settings)
	if again.printed("client key: ") != client || again.printed("operator key: ") != operator {
		t.Error("the keys differ")
	}
	if got := again.awaitStatus(client, p.ID, "COMPLETED"); got.Version != p.Version {
		t.Errorf("purchase = %+v", got)
	}
	_, lost := again.buy(client, "demo", "DROP-LOST", "k2")
	again.awaitStatus(client, lost.ID, "COMPLETED")
	if code := again.stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
	auditHolds(t, settings)
}

// A revoked demo key stops working; the next start creates a new one.
func TestRevokedTrialKeyIsReplaced(t *testing.T) {
	t.Parallel()
	settings := trialSettings(t)
	first := launch(t, settings)
	client := first.printed("client key: ")
	var id string
	for line := range strings.Lines(must(t, settings, "key", "list")) {
		if fields := strings.Fields(line); fields[2] == "client" {
			id = fields[0]
		}
	}
	must(t, settings, "key", "revoke", id)
	eventually(t, "revoked", func() error {
		a, err := first.call(http.MethodGet, "/v1/accounts/demo", client, "")
		if err == nil && a.status != http.StatusUnauthorized {
			return fmt.Errorf("status %d", a.status)
		}
		return err
	})
	first.stop()
	again := launch(t, settings)
	var acc accountView
	again.get("/v1/accounts/demo", again.printed("client key: "), &acc)
	if again.printed("client key: ") == client {
		t.Error("the revoked key was printed again")
	}
}
