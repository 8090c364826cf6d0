package api

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/shopspring/decimal"

	"holdfast/auth"
	"holdfast/internal/money"
	"holdfast/purchase"
)

type switchJSON struct {
	Name   string  `json:"name"`
	Paused bool    `json:"paused"`
	Note   string  `json:"note"`
	Broker *string `json:"broker"`
}

// maxBrokerName is far above any broker's name.
const maxBrokerName = 256

func (a *api) setSwitch(w http.ResponseWriter, r *http.Request) error {
	name := chi.URLParam(r, "name")
	if name != purchase.SwitchIntake && name != purchase.SwitchPasses {
		return because(notFound, "there is no such switch")
	}
	b, err := decode(r)
	if err != nil {
		return err
	}
	set := switchJSON{Name: name, Paused: b.truth("paused", true), Note: b.text("note", false, maxNote)}
	sw := purchase.Switch{Name: name, Broker: b.text("broker", false, maxBrokerName)}
	if err := b.problem(); err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	if sw.Broker != "" {
		if err := a.requireBroker(ctx, sw.Broker); err != nil {
			return err
		}
		set.Broker = &sw.Broker
	}
	if err := a.Switches.SetFor(ctx, sw, set.Paused, set.Note, auth.From(r.Context()).Actor()); err != nil {
		return err
	}
	return answer(w, http.StatusOK, set)
}

// requireBroker refuses a name that no broker has: a pause that pauses nothing is worse
// than an error.
func (a *api) requireBroker(ctx context.Context, name string) error {
	s, err := a.Purchases.Summary(ctx)
	if err != nil {
		return err
	}
	if _, known := s.Brokers[name]; !known {
		return invalid(fieldError{"broker", "is not the name of a broker; the summary lists them"})
	}
	return nil
}

type summaryJSON struct {
	Counts          map[purchase.Status]int64    `json:"counts"`
	OldestDueRetry  float64                      `json:"oldest_due_retry_seconds"`
	OldestUnknown   float64                      `json:"oldest_unknown_seconds"`
	ReservedUnknown map[string]string            `json:"reserved_unknown"`
	Passes          int64                        `json:"passes_total"`
	ManualReviews   int64                        `json:"manual_reviews_total"`
	Broker          map[string]string            `json:"broker"`
	Switches        map[string]string            `json:"switches"`
	Queues          map[string]string            `json:"queues"`
	Brokers         map[string]brokerSummaryJSON `json:"brokers"`
}

type brokerSummaryJSON struct {
	// State is null for a broker that this process does not serve.
	State           *string           `json:"state"`
	Intake          string            `json:"intake"`
	Passes          string            `json:"passes"`
	Unknown         int64             `json:"unknown"`
	Working         int64             `json:"working"`
	ReservedUnknown map[string]string `json:"reserved_unknown"`
}

func (a *api) summary(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := databaseContext(r)
	defer cancel()
	s, err := a.Purchases.Summary(ctx)
	if err != nil {
		return err
	}
	paused, err := a.Switches.All(ctx)
	if err != nil {
		return err
	}
	queues, err := a.Queues(ctx)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, summaryJSON{
		Counts: s.Counts, OldestDueRetry: wholeMillis(s.OldestDueRetry), OldestUnknown: wholeMillis(s.OldestUnknown),
		ReservedUnknown: byCurrency(s.ReservedUnknown), Passes: s.PassesTotal, ManualReviews: s.ManualReviewsTotal,
		Broker: map[string]string{"state": string(a.Purchases.Brokers().WorstState())},
		Switches: map[string]string{
			purchase.SwitchIntake: onOr(paused.Of(purchase.SwitchIntake, ""), "off"),
			purchase.SwitchPasses: onOr(paused.Of(purchase.SwitchPasses, ""), "off"),
		},
		Queues: states(queues, "paused"), Brokers: a.brokers(s.Brokers, paused),
	})
}

func (a *api) brokers(found map[string]purchase.BrokerSummary, paused purchase.Paused) map[string]brokerSummaryJSON {
	written := make(map[string]brokerSummaryJSON, len(found))
	for name, b := range found {
		one := brokerSummaryJSON{
			Intake: onOr(paused.Of(purchase.SwitchIntake, name), "off"), Passes: onOr(paused.Of(purchase.SwitchPasses, name), "off"),
			Unknown: b.Unknown, Working: b.Working, ReservedUnknown: byCurrency(b.ReservedUnknown),
		}
		if state, served := a.Purchases.Brokers().State(name); served {
			text := string(state)
			one.State = &text
		}
		written[name] = one
	}
	return written
}

func wholeMillis(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

func byCurrency(sums map[string]decimal.Decimal) map[string]string {
	written := make(map[string]string, len(sums))
	for currency, sum := range sums {
		written[currency] = money.FormatCurrency(sum, currency)
	}
	return written
}

// states names what runs "on", and what is paused as given.
func states(paused map[string]bool, off string) map[string]string {
	named := make(map[string]string, len(paused))
	for name, isPaused := range paused {
		named[name] = onOr(isPaused, off)
	}
	return named
}

func onOr(paused bool, off string) string {
	if paused {
		return off
	}
	return "on"
}
