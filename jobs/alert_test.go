package jobs

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/purchase"
)

// alert writes an alert of an age, with its job where it is to have one.
func (w *world) alert(t *testing.T, age string, withJob bool) uuid.UUID {
	t.Helper()
	id := uuid.New()
	w.exec(t, `INSERT INTO alert (id, type, data, created_at) VALUES ($1, 'broker.unavailable', '{"a":"b"}', now() - $2::text::interval)`, id, age)
	if withJob {
		must(t, schedule(t, w, purchase.Work{Alerts: []uuid.UUID{id}}))
	}
	return id
}

func (w *world) delivered(t *testing.T, id uuid.UUID) bool {
	t.Helper()
	return w.count(t, "SELECT count(*) FROM alert WHERE id = $1 AND delivered_at IS NOT NULL AND abandoned_at IS NULL", id) == 1
}

func (w *world) abandoned(t *testing.T, id uuid.UUID) bool {
	t.Helper()
	return w.count(t, "SELECT count(*) FROM alert WHERE id = $1 AND delivered_at IS NULL AND abandoned_at IS NOT NULL", id) == 1
}

func TestAlertIsRetriedUnderOneID(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, http.StatusServiceUnavailable)
	w := newWorld(t)
	w.config.WebhookURL, w.config.WebhookSecret = to.URL, "whsec_c2VjcmV0"
	id := w.alert(t, "0", true)
	w.start(t)

	eventually(t, "a first delivery failed and waits", func() bool {
		return len(to.deliveries()) == 1 && w.job(t, id).State != "running"
	})
	if job := w.job(t, id); job.Attempt != 0 || job.Errors != "" {
		t.Errorf("a failed delivery cost the job: %+v", job)
	}
	to.answer(http.StatusOK)
	must(t, schedule(t, w, purchase.Work{Alerts: []uuid.UUID{id}}))
	eventually(t, "the alert is delivered", func() bool { return w.delivered(t, id) })
	if job := w.job(t, id); job.State != "completed" {
		t.Errorf("delivered, but the job is %s", job.State)
	}
	got := to.deliveries()
	if len(got) != 2 || string(got[0].body) != string(got[1].body) {
		t.Errorf("deliveries are %+v, want two with one body", got)
	}
	for _, delivery := range got {
		if sent := delivery.header.Get("webhook-id"); sent != id.String() {
			t.Errorf("webhook-id is %s, want %s", sent, id)
		}
	}
}

func TestAlertIsAbandonedAfterADay(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, http.StatusServiceUnavailable)
	w := newWorld(t)
	w.config.WebhookURL, w.config.WebhookSecret = to.URL, "whsec_c2VjcmV0"
	id := w.alert(t, "25 hours", true)
	w.start(t)

	eventually(t, "the alert is abandoned", func() bool { return w.abandoned(t, id) })
	if n := len(to.deliveries()); n != 1 {
		t.Errorf("%d deliveries of an old alert, want one last", n)
	}
	if !strings.Contains(w.log.String(), `"level":"ERROR","msg":"alert abandoned`) {
		t.Error("nothing in the log")
	}
	if strings.Contains(w.log.String(), "c2VjcmV0") || strings.Contains(w.log.String(), to.URL) {
		t.Error("the log tells the webhook's URL or secret")
	}
}

func TestAlertWithoutWebhookIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.alert(t, "0", true)
	w.start(t)
	eventually(t, "the alert is delivered", func() bool { return w.delivered(t, id) })
	for _, want := range []string{`"level":"ERROR","msg":"alert"`, id.String(), `"data":{"a":"b"}`} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

// An alert whose job was deleted, or never made, is found by the sweep.
func TestAlertWithoutJobIsDelivered(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, http.StatusOK)
	w := newWorld(t)
	w.config.WebhookURL, w.config.WebhookSecret = to.URL, "whsec_c2VjcmV0"
	id := w.alert(t, "1 hour", false)
	w.start(t)
	eventually(t, "the alert is delivered", func() bool { return w.delivered(t, id) })
	if n := len(to.deliveries()); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
}

func TestAlertWaitDoublesTheAge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ age, least, most time.Duration }{
		{0, 4 * time.Second, 6 * time.Second},
		{time.Minute, 48 * time.Second, 72 * time.Second},
		{20 * time.Hour, 48 * time.Minute, 72 * time.Minute},
	} {
		for range 100 {
			if wait := alertWait(test.age); wait < test.least || wait > test.most {
				t.Errorf("at %s the wait is %s, want %s to %s", test.age, wait, test.least, test.most)
			}
		}
	}
}
