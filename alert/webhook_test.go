package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holdfast/internal/testkit/webhooktest"
)

func testAlert() Alert {
	return Alert{
		ID: uuid.New(), Type: "purchase.manual_review",
		CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Data: json.RawMessage(`{"reserved":"250.00"}`),
	}
}

func TestWebhookSignature(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdefghijklmnopqrstuv")
	for name, secret := range map[string]string{
		"Prefixed": "whsec_" + base64.StdEncoding.EncodeToString(key),
		"Raw":      string(key),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := webhooktest.New(t, http.StatusNoContent)
			webhook, err := NewWebhook(to.URL, secret)
			must(t, err)
			alert := testAlert()
			must(t, webhook.Send(t.Context(), alert))

			got := to.Deliveries()[0]
			checkSignature(t, got, key, alert)
			for _, library := range libraries(t, key) {
				must(t, library.Verify(got.Body, got.Header))
				if library.Verify(append(got.Body, ' '), got.Header) == nil {
					t.Error("another body has the same signature")
				}
			}
		})
	}
}

// libraries are receivers that were given the key in either form.
func libraries(t *testing.T, key []byte) []*standardwebhooks.Webhook {
	t.Helper()
	raw, err := standardwebhooks.NewWebhookRaw(key)
	must(t, err)
	prefixed, err := standardwebhooks.NewWebhook("whsec_" + base64.StdEncoding.EncodeToString(key))
	must(t, err)
	return []*standardwebhooks.Webhook{raw, prefixed}
}

// checkSignature computes the signature from the specification's own words.
func checkSignature(t *testing.T, got webhooktest.Delivery, key []byte, alert Alert) {
	t.Helper()
	wantBody := `{"type":"purchase.manual_review","timestamp":"2026-03-04T05:06:07Z","data":{"reserved":"250.00"}}`
	if string(got.Body) != wantBody {
		t.Errorf("body is %s, want %s", got.Body, wantBody)
	}
	if id := got.Header.Get("webhook-id"); id != alert.ID.String() {
		t.Errorf("webhook-id is %q, want %s", id, alert.ID)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(alert.ID.String() + "." + got.Header.Get("webhook-timestamp") + "." + wantBody))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if signature := got.Header.Get("webhook-signature"); signature != want {
		t.Errorf("webhook-signature is %q, want %q", signature, want)
	}
	if kind := got.Header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("Content-Type is %q", kind)
	}
}

func TestWebhookWithoutSecretIsUnsigned(t *testing.T) {
	t.Parallel()
	to := webhooktest.New(t, http.StatusOK)
	webhook, err := NewWebhook(to.URL, "")
	must(t, err)
	must(t, webhook.Send(t.Context(), testAlert()))
	if signature := to.Deliveries()[0].Header.Get("webhook-signature"); signature != "" {
		t.Errorf("signed with no secret: %q", signature)
	}
}

func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ url, secret string }{
		"NoHost":       {"http:///path", "whsec_c2VjcmV0"},
		"NoScheme":     {"example.com/hook", "whsec_c2VjcmV0"},
		"OtherScheme":  {"ftp://example.com/hook", "whsec_c2VjcmV0"},
		"NotBase64":    {"https://user:hunter2@example.com", "whsec_hunter2!"},
		"EmptySecret":  {"https://example.com/hook", "whsec_"},
		"ControlBytes": {"http://user:hunter2@exa\x01mple.com", "whsec_c2VjcmV0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewWebhook(test.url, test.secret)
			if err == nil {
				t.Fatal("taken")
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error tells a secret: %v", err)
			}
		})
	}
}

func TestWebhookFailures(t *testing.T) {
	t.Parallel()
	elsewhere := webhooktest.New(t, http.StatusOK)
	for name, handler := range map[string]http.HandlerFunc{
		"ServerError": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"ClientError": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
		"Redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"EndlessHeader": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("x", 1<<10))
			}
		},
		"Closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"Silent": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			defer server.Close()
			webhook, err := NewWebhook(strings.Replace(server.URL, "http://", "http://user:hunter2@", 1)+"/token", "raw")
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err = webhook.Send(ctx, testAlert())
			if err == nil {
				t.Fatal("taken as delivered")
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "/token") {
				t.Errorf("error tells the URL: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		if n := len(elsewhere.Deliveries()); n != 0 {
			t.Errorf("a redirect was followed %d times", n)
		}
	})
}

// An answer without an end does not hold the delivery up: its status has been read.
func TestWebhookEndlessAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<10)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	webhook, err := NewWebhook(server.URL, "raw")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, webhook.Send(ctx, testAlert()))
}

func TestWebhookRefusal(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, test := range map[string]struct {
		status     int
		retryAfter string
		want       time.Duration
	}{
		"Nothing":       {503, "", 0},
		"Seconds":       {503, "20", 20 * time.Second},
		"Spaces":        {429, " 7 ", 7 * time.Second},
		"Date":          {503, "Wed, 04 Mar 2026 05:07:07 GMT", time.Minute},
		"PastDate":      {503, "Wed, 04 Mar 2026 05:05:07 GMT", 0},
		"FarDate":       {503, "Wed, 04 Mar 2028 05:05:07 GMT", maxRest},
		"TooLong":       {429, "86400", maxRest},
		"Absurd":        {429, "99999999999999999999", 0},
		"Negative":      {429, "-5", 0},
		"Fraction":      {429, "1.5", 0},
		"OnServerErr":   {500, "20", 20 * time.Second},
		"Gone":          {410, "", maxRest},
		"GoneForAWhile": {410, "1", maxRest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := &http.Response{StatusCode: test.status, Header: http.Header{"Retry-After": {test.retryAfter}}}
			if got := refusal(answer, now); got.Rest != test.want || got.Status != test.status {
				t.Errorf("refusal is %+v, want a rest of %s", got, test.want)
			}
		})
	}
}

// While a receiver rests it is sent nothing; afterwards it is.
func TestWebhookRests(t *testing.T) {
	t.Parallel()
	to := webhooktest.New(t, http.StatusServiceUnavailable)
	to.SetHeader("Retry-After", "1")
	webhook, err := NewWebhook(to.URL, "raw")
	must(t, err)
	began := time.Now()
	var refused *RefusedError
	if err := webhook.Send(t.Context(), testAlert()); !errors.As(err, &refused) || refused.Rest != time.Second {
		t.Fatalf("error is %v, want a refusal with a rest", err)
	}
	to.Answer(http.StatusOK)
	eventually(t, "it is sent", func() bool { return webhook.Send(t.Context(), testAlert()) == nil })
	if took := time.Since(began); took < time.Second {
		t.Errorf("sent again after %s", took)
	}
	if n := len(to.Deliveries()); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}
}

// A receiver that takes the message and says nothing is given up on in time.
func TestWebhookTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		webhook, err := NewWebhook("http://receiver.example/hook", "raw")
		must(t, err)
		ours, theirs := net.Pipe()
		webhook.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			return ours, nil
		}
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		began := time.Now()
		err = webhook.Send(t.Context(), testAlert())
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != webhookTimeout {
			t.Errorf("after %s: %v; want a timeout after %s", took, err, webhookTimeout)
		}
		_ = theirs.Close()
	})
}

func TestWaitDoublesTheAge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ age, least, most time.Duration }{
		{0, 4 * time.Second, 6 * time.Second},
		{time.Minute, 48 * time.Second, 72 * time.Second},
		{20 * time.Hour, 48 * time.Minute, 72 * time.Minute},
	} {
		for range 100 {
			if d := wait(test.age, 0); d < test.least || d > test.most {
				t.Errorf("at %s the wait is %s, want %s to %s", test.age, d, test.least, test.most)
			}
			if d := wait(test.age, maxRest); d < maxRest || d > 6*maxRest/5 {
				t.Errorf("at %s and a rest of %s the wait is %s", test.age, maxRest, d)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
