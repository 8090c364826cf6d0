package api_test

import (
	"bufio"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// BenchmarkCommitToByte measures from the return of a purchase's commit to the event's
// first byte at a subscriber, beside a bare notification's way to its listener.
func BenchmarkCommitToByte(b *testing.B) {
	b.Run("Stream", func(b *testing.B) {
		s := newStreaming(b, 0).startHTTP()
		stream := bufio.NewReader(s.dial(b, s.operator, 0))
		measure(b, func() time.Time {
			s.exec(b, `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
				VALUES (gen_random_uuid(), 'acct', 2, 'COMPLETED', 'PENDING')`)
			committed := time.Now()
			s.box.Wake()
			for {
				line, err := stream.ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				if strings.HasPrefix(line, "id:") {
					return committed
				}
			}
		})
	})
	b.Run("Notify", func(b *testing.B) {
		s := newStreaming(b, 0).startHTTP()
		conn, err := pgx.Connect(b.Context(), s.pool.Config().ConnString())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(b.Context())
		if _, err := conn.Exec(b.Context(), "LISTEN baseline"); err != nil {
			b.Fatal(err)
		}
		measure(b, func() time.Time {
			s.exec(b, "SELECT pg_notify('baseline', '')")
			committed := time.Now()
			if _, err := conn.WaitForNotification(b.Context()); err != nil {
				b.Fatal(err)
			}
			return committed
		})
	})
}

// measure reports the median and the 99th percentile of what each round takes from the
// time that it returns.
func measure(b *testing.B, round func() time.Time) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		took = append(took, time.Since(round()))
		<-time.After(10 * time.Millisecond) // idle, as the figure says
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStreams measures what many quiet streams cost, and one event to all of them.
func BenchmarkStreams(b *testing.B) {
	const n = 9000
	s := newStreaming(b, 0).startHTTP()
	before := memory()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = s.dial(b, s.operator, 0)
	}
	soon(b, "all subscribed", func() bool { return s.box.Subscribers() == n })
	soon(b, "quiet", func() bool { return (memory()-before)/n < 12<<10 })
	each := (memory() - before) / n
	var all time.Duration
	rounds := 0
	for b.Loop() {
		begun := time.Now()
		s.happen(b, "acct", 1)
		for _, conn := range conns {
			readEvent(b, conn)
		}
		all += time.Since(begun)
		rounds++
	}
	b.ReportMetric(float64(each), "B/stream")
	b.ReportMetric(float64((all / time.Duration(rounds)).Milliseconds()), "ms/event-to-all")
	b.ReportMetric(0, "ns/op")
}
