package purchase

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"holdfast/purchase/db"
)

// Summary returns what an operator sees first.
func (s *Service) Summary(ctx context.Context) (Summary, error) {
	summary := Summary{
		Counts: map[Status]int64{}, ReservedUnknown: map[string]decimal.Decimal{},
		Brokers: map[string]BrokerSummary{},
	}
	for _, name := range s.brokers.Names() {
		summary.Brokers[name] = BrokerSummary{ReservedUnknown: map[string]decimal.Decimal{}}
	}
	for _, status := range Statuses() {
		summary.Counts[status] = 0
	}
	queries := db.New(s.pool)
	for _, fill := range []func(context.Context, *db.Queries, *Summary) error{
		fillOpen, s.finals.fill, fillAges, fillUnknown, fillTotals,
	} {
		if err := fill(ctx, queries, &summary); err != nil {
			return Summary{}, fmt.Errorf("summarise: %w", err)
		}
	}
	return summary, nil
}

func fillOpen(ctx context.Context, queries *db.Queries, summary *Summary) error {
	counts, err := queries.OpenCounts(ctx)
	for _, count := range counts {
		summary.Counts[Status(count.Status)] = count.Purchases
	}
	return err
}

func fillAges(ctx context.Context, queries *db.Queries, summary *Summary) error {
	ages, err := queries.SummaryAges(ctx)
	summary.OldestDueRetry, summary.OldestUnknown = seconds(ages.OldestDue), seconds(ages.OldestUnknown)
	return err
}

func fillUnknown(ctx context.Context, queries *db.Queries, summary *Summary) error {
	rows, err := queries.UnknownByBroker(ctx)
	for _, r := range rows {
		summary.ReservedUnknown[r.Currency] = summary.ReservedUnknown[r.Currency].Add(r.Reserved)
		b, known := summary.Brokers[r.Broker]
		if !known {
			b.ReservedUnknown = map[string]decimal.Decimal{}
		}
		b.Unknown, b.Working = b.Unknown+r.Purchases, b.Working+r.Working
		b.ReservedUnknown[r.Currency] = r.Reserved
		summary.Brokers[r.Broker] = b
	}
	return err
}

func fillTotals(ctx context.Context, queries *db.Queries, summary *Summary) (err error) {
	if summary.PassesTotal, err = queries.PassesTotal(ctx); err != nil {
		return err
	}
	summary.ManualReviewsTotal, err = queries.ReviewsTotal(ctx)
	return err
}

// finalCounts counts what has ended. On a history so long that counting takes its time,
// a count serves for twenty times as long as it took.
type finalCounts struct {
	mu    sync.Mutex
	known db.FinalCountsRow
	until time.Time
}

// quickCount is the time below which a count is simply made again.
const quickCount = 50 * time.Millisecond

func (f *finalCounts) fill(ctx context.Context, queries *db.Queries, summary *Summary) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	began := time.Now()
	if began.After(f.until) {
		counts, err := queries.FinalCounts(ctx)
		if err != nil {
			return err
		}
		f.known = counts
		if took := time.Since(began); took > quickCount {
			f.until = time.Now().Add(20 * took)
		}
	}
	summary.Counts[Completed], summary.Counts[Rejected] = f.known.Completed, f.known.Rejected
	return nil
}
