package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/alert/db"
)

const (
	// deliveryPeriod is how long a delivery is retried. After a day the alert is in the
	// log, in the summary and in every list.
	deliveryPeriod = 24 * time.Hour
	// The wait after a failed delivery is the alert's age within these bounds: each wait
	// doubles the age, and a job that was lost and made again keeps the pace.
	waitMin = 5 * time.Second
	waitMax = time.Hour
)

// Delivery delivers alerts to the webhook, or to the log if there is none.
type Delivery struct {
	pool    *pgxpool.Pool
	webhook *Webhook
	log     *slog.Logger
}

// DeliveryParams of a [Delivery]. Without a URL an error in the log is the delivery.
type DeliveryParams struct {
	Pool        *pgxpool.Pool
	URL, Secret string
	Log         *slog.Logger
}

// NewDelivery returns an error if the URL or the secret is invalid.
func NewDelivery(p DeliveryParams) (*Delivery, error) {
	d := &Delivery{pool: p.Pool, log: p.Log}
	if p.URL == "" {
		return d, nil
	}
	webhook, err := NewWebhook(p.URL, p.Secret)
	if err != nil {
		return nil, err
	}
	d.webhook = webhook
	return d, nil
}

// An Outcome is what follows from one attempt to deliver.
type Outcome struct {
	// Again is the wait until the next attempt; zero: there is none.
	Again time.Duration
	// FinishTx marks the alert in the caller's transaction; nil if there is nothing to mark.
	FinishTx func(ctx context.Context, tx pgx.Tx) error
}

// Deliver makes one attempt, unless the alert was delivered or abandoned before. It may
// deliver an alert twice, if the process dies before the mark is stored: the receiver
// recognizes it by its id.
func (d *Delivery) Deliver(ctx context.Context, id uuid.UUID) (Outcome, error) {
	alert, err := db.New(d.pool).AlertToDeliver(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Outcome{}, nil
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("read alert: %w", err)
	}
	if err := d.send(ctx, alert); err != nil {
		return d.failed(ctx, alert, err)
	}
	return finish((*db.Queries).MarkAlertDelivered, id), nil
}

func (d *Delivery) send(ctx context.Context, alert db.AlertToDeliverRow) error {
	if d.webhook == nil {
		d.log.ErrorContext(ctx, "alert", "alert_id", alert.ID, "type", alert.Type, "data", json.RawMessage(alert.Data))
		return nil
	}
	return d.webhook.Send(ctx, Alert{
		ID: alert.ID, Type: alert.Type, CreatedAt: alert.CreatedAt, Data: json.RawMessage(alert.Data),
	})
}

func (d *Delivery) failed(ctx context.Context, alert db.AlertToDeliverRow, cause error) (Outcome, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return Outcome{}, cause
	}
	age := time.Duration(alert.Age * float64(time.Second))
	log := d.log.With("alert_id", alert.ID, "type", alert.Type, "age", age.Round(time.Second), "error", cause)
	if age >= deliveryPeriod {
		log.ErrorContext(ctx, "alert abandoned: a day of deliveries has failed", "data", json.RawMessage(alert.Data))
		return finish((*db.Queries).MarkAlertAbandoned, alert.ID), nil
	}
	var refused *RefusedError
	level, again := slog.LevelWarn, wait(age, 0)
	if errors.As(cause, &refused) {
		again = wait(age, refused.Rest)
		if refused.Status == http.StatusGone {
			level = slog.LevelError // waiting fixes nothing here
		}
	}
	log.Log(ctx, level, "alert not delivered", "again", again)
	return Outcome{Again: again}, nil
}

func finish(mark func(*db.Queries, context.Context, uuid.UUID) error, id uuid.UUID) Outcome {
	return Outcome{FinishTx: func(ctx context.Context, tx pgx.Tx) error {
		if err := mark(db.New(tx), ctx, id); err != nil {
			return fmt.Errorf("mark alert: %w", err)
		}
		return nil
	}}
}

// wait is the wait after a failure at that age, and never less than the receiver asked for.
// Alerts that wait for the end of one rest are not sent all at once.
func wait(age, rest time.Duration) time.Duration {
	spread := 0.8 + 0.4*rand.Float64()
	d := time.Duration(float64(min(max(age, waitMin), waitMax)) * spread)
	if rest > d {
		return rest + rand.N(rest/5+1)
	}
	return d
}
