package jobs

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holdfast/alert"
	"holdfast/internal/testkit/webhooktest"
	"holdfast/purchase"
)

const testSecret = "whsec_c2VjcmV0"

// deliverTo makes workers that start from now on deliver to url.
func (w *world) deliverTo(t *testing.T, url string) {
	t.Helper()
	delivery, err := alert.NewDelivery(alert.DeliveryParams{Pool: w.config.Pool, URL: url, Secret: testSecret, Log: w.config.Log})
	must(t, err)
	w.config.Delivery = delivery
}

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
	to := webhooktest.New(t, http.StatusServiceUnavailable)
	w := newWorld(t)
	w.deliverTo(t, to.URL)
	id := w.alert(t, "0", true)
	w.start(t)

	eventually(t, "a first delivery failed and waits", func() bool {
		return len(to.Deliveries()) == 1 && w.job(t, id).State != "running"
	})
	if job := w.job(t, id); job.Attempt != 0 || job.Errors != "" {
		t.Errorf("a failed delivery cost the job: %+v", job)
	}
	to.Answer(http.StatusOK)
	must(t, schedule(t, w, purchase.Work{Alerts: []uuid.UUID{id}}))
	eventually(t, "the alert is delivered", func() bool { return w.delivered(t, id) })
	if job := w.job(t, id); job.State != "completed" {
		t.Errorf("delivered, but the job is %s", job.State)
	}
	got := to.Deliveries()
	if len(got) != 2 || string(got[0].Body) != string(got[1].Body) {
		t.Errorf("deliveries are %+v, want two with one body", got)
	}
	library, err := standardwebhooks.NewWebhook(testSecret)
	must(t, err)
	for _, delivery := range got {
		must(t, library.Verify(delivery.Body, delivery.Header))
		if sent := delivery.Header.Get("webhook-id"); sent != id.String() {
			t.Errorf("webhook-id is %s, want %s", sent, id)
		}
	}
}

func TestAlertIsAbandonedAfterADay(t *testing.T) {
	t.Parallel()
	to := webhooktest.New(t, http.StatusServiceUnavailable)
	w := newWorld(t)
	w.deliverTo(t, to.URL)
	id := w.alert(t, "25 hours", true)
	w.start(t)

	eventually(t, "the alert is abandoned", func() bool { return w.abandoned(t, id) })
	if n := len(to.Deliveries()); n != 1 {
		t.Errorf("%d deliveries of an old alert, want one last", n)
	}
	if !strings.Contains(w.log.String(), `"level":"ERROR","msg":"alert abandoned`) {
		t.Error("nothing in the log")
	}
	if strings.Contains(w.log.String(), "c2VjcmV0") || strings.Contains(w.log.String(), to.URL) {
		t.Error("the log tells the webhook's URL or secret")
	}

	// A person who wants it told after all takes the mark away.
	to.Answer(http.StatusOK)
	w.exec(t, "UPDATE alert SET abandoned_at = NULL WHERE id = $1", id)
	eventually(t, "the alert is delivered", func() bool { return w.delivered(t, id) })
	if got := to.Deliveries(); got[0].Header.Get("webhook-id") != got[1].Header.Get("webhook-id") {
		t.Error("it came under another id")
	}
}

// What the receiver asks for is the least wait, for every alert, and costs the job nothing.
func TestAlertWaitsWhileTheReceiverRests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status, least, most int // seconds
		header, logged      string
	}{
		"TooMany":    {http.StatusTooManyRequests, 40, 49, "40", `"level":"WARN","msg":"alert not delivered"`},
		"Overloaded": {http.StatusServiceUnavailable, 3600, 4321, "86400", `"level":"WARN","msg":"alert not delivered"`},
		"Gone":       {http.StatusGone, 3600, 4321, "", `"level":"ERROR","msg":"alert not delivered"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := webhooktest.New(t, test.status)
			to.SetHeader("Retry-After", test.header)
			w := newWorld(t)
			w.deliverTo(t, to.URL)
			first := w.alert(t, "0", true)
			w.start(t)
			eventually(t, "a first delivery failed and waits", func() bool { return w.job(t, first).State == "scheduled" })
			second := w.alert(t, "0", true)
			eventually(t, "the second alert waits", func() bool { return w.job(t, second).State == "scheduled" })
			if n := len(to.Deliveries()); n != 1 {
				t.Errorf("%d deliveries, want the first alone", n)
			}
			for _, id := range []uuid.UUID{first, second} {
				job := w.job(t, id)
				waits := job.ScheduledAt.Sub(job.AttemptedAt)
				if waits < time.Duration(test.least-5)*time.Second || waits > time.Duration(test.most)*time.Second {
					t.Errorf("the job waits %s, want %d to %d s", waits, test.least, test.most)
				}
				if job.Attempt != 0 || job.Errors != "" {
					t.Errorf("the wait cost the job: %+v", job)
				}
			}
			if !strings.Contains(w.log.String(), test.logged) {
				t.Errorf("the log lacks %s", test.logged)
			}
		})
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
	to := webhooktest.New(t, http.StatusOK)
	w := newWorld(t)
	w.deliverTo(t, to.URL)
	id := w.alert(t, "1 hour", false)
	w.start(t)
	eventually(t, "the alert is delivered", func() bool { return w.delivered(t, id) })
	if n := len(to.Deliveries()); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
}
