package jobs

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"holdfast/alert"
	"holdfast/internal/testkit/pgtest"
	"holdfast/internal/testkit/webhooktest"
	"holdfast/purchase"
	"holdfast/sandbox"
)

// toReview makes every lookup undecided, and one pass the limit.
func (w *world) toReview(t *testing.T) {
	t.Helper()
	w.broker.script(t, sandbox.Response{Call: "lookup", Status: http.StatusServiceUnavailable, Times: 1000})
}

func onePass(r *rules) { r.MaxAttempts = 1 }

// Each review has its alert, and only one: a purchase that an operator sends back and that
// comes again is told of again, under another id.
func TestOneAlertAReview(t *testing.T) {
	t.Parallel()
	to := webhooktest.New(t, http.StatusOK)
	w := newWorld(t, onePass)
	w.deliverTo(t, to.URL)
	w.toReview(t)
	w.start(t)
	p := w.submit(t)
	w.await(t, purchase.ManualReview, p.ID)
	eventually(t, "it is told of", func() bool { return len(to.Deliveries()) == 1 })
	_, err := w.service.Reconcile(t.Context(), p.ID, "operator:test")
	must(t, err)
	eventually(t, "it is told of again", func() bool { return len(to.Deliveries()) == 2 })
	eventually(t, "nothing is left to tell", func() bool {
		return w.count(t, "SELECT count(*) FROM alert WHERE delivered_at IS NOT NULL") == 2
	})
	got := to.Deliveries()
	if got[0].Header.Get("webhook-id") == got[1].Header.Get("webhook-id") {
		t.Error("two reviews have one id")
	}
	for _, delivery := range got {
		checkReview(t, delivery.Body, p.ID)
	}
}

func checkReview(t *testing.T, body []byte, id uuid.UUID) {
	t.Helper()
	var alert struct {
		Type, Timestamp string
		Data            map[string]any
	}
	must(t, json.Unmarshal(body, &alert))
	want := map[string]any{
		"purchase_id": id.String(), "account_id": testAccount, "reason": "attempts_exhausted",
		"reserved": "250.00", "currency": "USD", "attempts": 1.0,
	}
	for name, value := range want {
		if alert.Data[name] != value {
			t.Errorf("%s is %v, want %v", name, alert.Data[name], value)
		}
	}
	if len(alert.Data) != len(want) || alert.Type != "purchase.manual_review" || alert.Timestamp == "" {
		t.Errorf("the alert is %s", body)
	}
}

// A review and its alert are one transaction: where the alert can have no job, there is
// no review yet.
func TestNoReviewWithoutItsAlert(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onePass)
	w.toReview(t)
	refuseJobs(t, w, "deliver_alert")
	w.start(t)
	p := w.submit(t)
	eventually(t, "a pass has failed", func() bool { return w.job(t, p.ID).Errors != "" })
	if got := w.get(t, p.ID); got.Status != purchase.Unknown || got.Attempts != 0 {
		t.Errorf("the purchase is %s after %d attempts, want UNKNOWN after none", got.Status, got.Attempts)
	}
	if n := w.count(t, "SELECT count(*) FROM alert"); n != 0 {
		t.Errorf("%d alerts", n)
	}
	w.exec(t, "DROP TRIGGER refuse ON river_job")
	w.await(t, purchase.ManualReview, p.ID)
	if n := w.count(t, "SELECT count(*) FROM alert"); n != 1 {
		t.Errorf("%d alerts, want 1", n)
	}
}

// Whatever kind of trouble twenty calls on two processes see in one moment, it is told
// once an hour.
func TestAlertsOncePerHourAndType(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	w, other := newWorldAt(t, url), productPool(t, url, testRules().lock)
	scheduler, err := NewScheduler(other)
	must(t, err)
	second := alert.New(other, scheduler, w.config.Log)
	raise := func() {
		var all sync.WaitGroup
		for i := range 20 {
			alerts, kind := w.config.Alerts, purchase.AlertBrokerUnavailable
			if i%2 == 1 {
				alerts = second
			}
			if i%4 > 1 {
				kind = purchase.AlertBrokerRecovered
			}
			all.Go(func() {
				if err := alerts.Raise(t.Context(), kind, map[string]any{"n": i}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	for hour := 1; hour <= 3; hour++ {
		raise()
		raise()
		for _, kind := range []string{purchase.AlertBrokerUnavailable, purchase.AlertBrokerRecovered} {
			if n := w.count(t, "SELECT count(*) FROM alert WHERE type = $1", kind); n != hour {
				t.Errorf("in hour %d there are %d alerts of %s", hour, n, kind)
			}
		}
		w.exec(t, "UPDATE alert SET created_at = created_at - interval '61 minutes'")
	}
	if jobs, alerts := w.count(t, "SELECT count(*) FROM river_job"), w.count(t, "SELECT count(*) FROM alert"); jobs != alerts {
		t.Errorf("%d jobs for %d alerts", jobs, alerts)
	}
}

// Refused credentials are told of, by whichever call meets them.
func TestRefusedCredentialsAreToldOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.broker.script(t, sandbox.Response{Call: "lookup", Status: http.StatusUnauthorized, Times: 2})
	w.start(t)
	p := w.submit(t)
	w.await(t, purchase.Completed, p.ID)
	eventually(t, "it is told of", func() bool {
		return strings.Contains(w.log.String(), `"type":"`+purchase.AlertCredentialsRefused+`"`)
	})
	if n := w.count(t, "SELECT count(*) FROM alert WHERE type = $1", purchase.AlertCredentialsRefused); n != 1 {
		t.Errorf("%d alerts, want 1", n)
	}
}
