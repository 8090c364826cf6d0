package main

import (
	"context"
	"net/http"
	"sync"
	"syscall"
	"testing"
)

// An audit under load finds no breach, while purchases settle, wait, go to review and are
// reopened, and while a process is killed and another takes over.
func TestAuditOfABusyDatabase(t *testing.T) {
	t.Parallel()
	w := setup(t, append(append([]string{}, patient...), "HOLDFAST_RETRY_MAX_ATTEMPTS=2")...)
	api := launch(t, w.settings)
	victim := launch(t, w.settings, "--role", "worker")
	f := startTraffic(t, w, api)
	operating, stop := context.WithCancel(t.Context())
	var operator sync.WaitGroup
	t.Cleanup(func() { stop(); operator.Wait() })
	operator.Go(func() {
		for i := 0; operating.Err() == nil; i++ {
			f.buy(0, "forever-"+string(rune('a'+i%26))+string(rune('a'+i/26%26)), "ERR500-FOREVER")
			if _, err := api.call(http.MethodPost, "/v1/reconciliations", w.operator, `{"status":"MANUAL_REVIEW"}`); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 10 {
		f.flows(6)
		auditHolds(t, w.settings)
		if i == 4 {
			send(t, victim, syscall.SIGKILL)
		}
	}
	var reviews int
	if ask(t, w.database, "SELECT count(*) FROM purchase_transition WHERE status = 'MANUAL_REVIEW'", &reviews); reviews == 0 {
		t.Error("nothing went to review: the test proves less than it should")
	}
	stop()
	operator.Wait()
	f.stopBuying()
	f.buying.Wait()
	auditHolds(t, w.settings)
}
