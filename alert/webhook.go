package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holdfast/internal/webhookkey"
)

const (
	// webhookTimeout covers one delivery, all of it. The specification asks for 15 to
	// 30 s; the receiver should only take the message and answer.
	webhookTimeout = 15 * time.Second
	// maxWebhookAnswer is how much of an answer is read; only its status counts.
	maxWebhookAnswer = 4 << 10
)

// Alert is one message to operators.
type Alert struct {
	// ID is the webhook-id, the same in every retry: a receiver tells repeats by it.
	ID        uuid.UUID
	Type      string
	CreatedAt time.Time
	// Data is a JSON object.
	Data json.RawMessage
}

// Webhook delivers alerts, signed as in the Standard Webhooks specification.
type Webhook struct {
	url    string
	signer *standardwebhooks.Webhook
	client *http.Client
	rest   rest
}

// NewWebhook returns the webhook of url. secret is base64 behind "whsec_", or else the
// key's very bytes; without one the messages go unsigned.
func NewWebhook(rawURL, secret string) (*Webhook, error) {
	target, err := url.Parse(rawURL)
	if err != nil || target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
		// The URL may carry credentials, so it is not repeated.
		return nil, errors.New("webhook URL is not an absolute http or https URL")
	}
	var signer *standardwebhooks.Webhook
	if secret != "" {
		if signer, err = webhookkey.Parse(secret); err != nil {
			return nil, fmt.Errorf("webhook secret: %w", err)
		}
	}
	return &Webhook{url: rawURL, signer: signer, client: newWebhookClient()}, nil
}

func newWebhookClient() *http.Client {
	return &http.Client{
		Timeout: webhookTimeout,
		// A redirect would take the signed message to a place nobody named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DisableKeepAlives:      true, // alerts are rare; a kept connection would be stale
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// Send delivers alert once; any answer but a 2xx is a [*RefusedError]. While the receiver
// rests nothing is sent, and the error is the refusal that began it. No error names the
// URL, which may carry credentials.
func (w *Webhook) Send(ctx context.Context, alert Alert) error {
	if refused := w.rest.left(time.Now()); refused != nil {
		return fmt.Errorf("alert not sent: %w", refused)
	}
	request, err := w.request(ctx, alert)
	if err != nil {
		return err
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return fmt.Errorf("send alert: %w", withoutURL(err))
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, maxWebhookAnswer)
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		now := time.Now()
		refused := refusal(answer, now)
		w.rest.begin(refused, now)
		return fmt.Errorf("send alert: %w", refused)
	}
	return nil
}

func (w *Webhook) request(ctx context.Context, alert Alert) (*http.Request, error) {
	body, err := alert.body()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("send alert: %w", withoutURL(err))
	}
	now := time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Holdfast")
	request.Header.Set(standardwebhooks.HeaderWebhookID, alert.ID.String())
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if w.signer == nil {
		return request, nil
	}
	signature, err := w.signer.Sign(alert.ID.String(), now, body)
	if err != nil {
		return nil, fmt.Errorf("sign alert: %w", err)
	}
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return request, nil
}

// body is the same bytes in every retry.
func (a Alert) body() ([]byte, error) {
	body, err := json.Marshal(struct {
		Type      string          `json:"type"`
		Timestamp time.Time       `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
	}{a.Type, a.CreatedAt.UTC(), a.Data})
	if err != nil {
		return nil, fmt.Errorf("encode alert: %w", err)
	}
	return body, nil
}

func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
