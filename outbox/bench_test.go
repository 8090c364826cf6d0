package outbox_test

import (
	"testing"
	"time"

	"holdfast/internal/testkit/pgtest"
	"holdfast/outbox"
)

// BenchmarkRelay drains a full outbox: how fast one process catches up.
func BenchmarkRelay(b *testing.B) {
	const backlog = 50_000
	for b.Loop() {
		b.StopTimer()
		pool := pgtest.New(b)
		if err := outbox.NewRetention(outbox.RetentionConfig{Pool: pool, Keep: time.Hour}).Prune(b.Context()); err != nil {
			b.Fatal(err)
		}
		exec(b, pool, `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
			SELECT gen_random_uuid(), 'acct', 2, 'COMPLETED', 'PENDING' FROM generate_series(1, $1)`, backlog)
		relay := outbox.NewRelay(outbox.RelayConfig{Pool: pool})
		b.StartTimer()
		start(b, relay.Run)
		eventually(b, "drained", func() bool { return bounds(b, pool).Last == backlog })
	}
	b.ReportMetric(backlog*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
