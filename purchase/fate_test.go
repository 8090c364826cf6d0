package purchase_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"holdfast/internal/testkit/pgtest"
	"holdfast/purchase"
)

// wantFateUnknown submits, and checks that the answer claims neither a record nor none, and
// that the broker was not called.
func (b *bundle) wantFateUnknown(sub purchase.Submission) {
	b.t.Helper()
	before := b.broker.bought()
	result, err := b.Submit(b.t.Context(), sub)
	var unknown *purchase.FateUnknownError
	if !errors.As(err, &unknown) {
		b.t.Fatalf("got %+v (%v), want FateUnknownError", result.Purchase.Status, err)
	}
	if unknown.RetryAfter <= 0 {
		b.t.Error("no Retry-After")
	}
	if n := b.broker.bought() - before; n != 0 {
		b.t.Errorf("called the broker %d times", n)
	}
}

// wantReconciled checks that a purchase that was recorded after all is found by a repeated
// request, and that it is bought once.
func (b *bundle) wantReconciled(sub purchase.Submission) {
	b.t.Helper()
	before := b.broker.bought()
	again, err := b.Submit(b.t.Context(), sub)
	if err != nil || !again.Repeated || again.Purchase.Status != purchase.Pending {
		b.t.Fatalf("repeated request got %s, repeated %t (%v)", again.Purchase.Status, again.Repeated, err)
	}
	b.age(again.Purchase.ID, 2*time.Minute)
	if n, err := b.SweepPending(b.t.Context()); n != 1 || err != nil {
		b.t.Fatalf("swept %d (%v)", n, err)
	}
	b.pass(again.Purchase.ID)
	b.wantEnd(b.get(again.Purchase.ID), purchase.Completed, "", purchase.ByReplay)
	if n := b.broker.bought() - before; n != 1 {
		b.t.Errorf("bought %d times", n)
	}
	b.audit()
}

// The answer is lost, and the database stays unavailable for longer than anyone waits.
func TestLostAnswerThenOutageIsFateUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.overLine()
	l.lose.Store(true)
	l.away.Store(true)
	sub := order()
	b.wantFateUnknown(sub)
	l.away.Store(false)
	b.wantReconciled(sub)
}

// A pooler loses its server connection between the commit and its response, and says so.
func TestPoolerThatLosesItsServerIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, severity := range []string{"FATAL", "ERROR"} {
		t.Run(severity, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			l := b.overLine()
			message := pgproto3.ErrorResponse{
				Severity: severity, SeverityUnlocalized: severity, Code: "08P01", Message: "server conn crashed?",
			}
			l.says, _ = message.Encode(nil)
			l.lose.Store(true)
			p := b.submit(order())
			b.wantEnd(p, purchase.Completed, "", purchase.ByReply)
			if n := len(b.broker.placed(p)); n != 1 {
				t.Errorf("placed %d times", n)
			}
			b.audit()
		})
	}
}

// The statement reaches the database when nobody waits for it any more.
func TestLateStatementIsFateUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.overLine()
	l.hold.Store(true)
	l.away.Store(true)
	sub := order()
	b.wantFateUnknown(sub)
	if n := b.count("SELECT count(*) FROM transaction_history WHERE idempotency_key = $1", sub.IdempotencyKey); n != 0 {
		t.Fatalf("%d rows before the statement arrived", n)
	}
	l.away.Store(false)
	b.deliver(l)
	b.wantReconciled(sub)
}

// A record that is refused proves nothing while another of the same purchase may arrive.
func TestRefusalAfterALostStatementIsFateUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.overLine()
	l.hold.Store(true)
	sub := order()
	b.exec("UPDATE account SET available = available - 700, spent = spent + 700 WHERE id = 'acct-1'")
	b.wantFateUnknown(sub)
	b.exec("UPDATE account SET available = available + 700, spent = spent - 700 WHERE id = 'acct-1'")
	b.deliver(l)
	b.wantReconciled(sub)
}

// The server's process is stopped before it reads the statement.
func TestStoppedServerProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.overLine()
	pids := b.backends()
	for _, pid := range pids {
		b.signal(pid, syscall.SIGSTOP)
	}
	l.away.Store(true)
	sub := order()
	b.wantFateUnknown(sub)
	l.away.Store(false)
	for _, pid := range pids {
		b.signal(pid, syscall.SIGCONT)
	}
	b.await("the purchase", "SELECT count(*) FROM transaction_history WHERE idempotency_key = $1", sub.IdempotencyKey)
	b.wantReconciled(sub)
}

// backends lists the server processes of the line's idle connections.
func (b *bundle) backends() (pids []int) {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1 AND state = 'idle'`, lineName)
	if err != nil {
		b.t.Fatal(err)
	}
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			b.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		b.t.Fatal("no server process")
	}
	return pids
}

// signal signals a server process of this test's; one that was stopped goes on at the end.
func (b *bundle) signal(pid int, s syscall.Signal) {
	b.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		b.t.Fatal(err)
	}
	if s == syscall.SIGSTOP {
		b.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
}

// await waits until a count is above zero.
func (b *bundle) await(what, count string, args ...any) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); b.count(count, args...) == 0; {
		if time.Now().After(deadline) {
			b.t.Fatalf("waited a minute for %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// A synchronous standby is silent: the commit waits for it, and nobody knows for how long.
// While it does, a repeated request must not say that nothing is recorded.
func TestSilentStandbyIsFateUnknown(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t)
	b := setupOn(t, cluster)
	b.submit(order())
	cluster.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'silent'")
	cluster.Exec(t, "SELECT pg_reload_conf()")
	sub := order()
	b.wantFateUnknown(sub)
	b.wantFateUnknown(sub)
	cluster.Exec(t, "ALTER SYSTEM RESET synchronous_standby_names")
	cluster.Exec(t, "SELECT pg_reload_conf()")
	b.await("the purchase", "SELECT count(*) FROM transaction_history WHERE idempotency_key = $1", sub.IdempotencyKey)
	b.wantReconciled(sub)
}

// awaitWaiting waits until a statement waits for a lock.
func (b *bundle) awaitWaiting(statement string) {
	b.t.Helper()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ $1"
	for deadline := time.Now().Add(time.Minute); b.count(waiting, statement) == 0; {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not wait", statement)
		}
		<-time.After(20 * time.Millisecond)
	}
}
