package purchase_test

import (
	"sync"
	"testing"
	"time"

	"holdfast/purchase"
)

// A client repeats its key while its first call's answer is being stored, on an account
// that is busy for a moment: the two never deadlock.
func TestRepeatedRequestDoesNotDeadlockWithSettlement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit(order())
	answer, asked := make(chan struct{}), make(chan struct{}, 10)
	b.broker.script(func(map[string]any) reply {
		asked <- struct{}{}
		<-answer
		return reply{book: true, status: 201}
	}, nil)
	sub := order()
	var wg sync.WaitGroup
	var first, again purchase.Result
	wg.Go(func() { first, _ = b.Submit(t.Context(), sub) })
	<-asked
	holder := b.lockAccount("acct-1")
	wg.Go(func() { again, _ = b.Submit(t.Context(), sub) })
	b.awaitWaiting("RecordPurchases")
	close(answer)
	b.awaitWaiting("SettleReplies")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if first.Repeated || !again.Repeated || first.Purchase.ID != again.Purchase.ID {
		t.Errorf("first %+v, again %+v", first.Purchase.ID, again.Purchase.ID)
	}
	b.wantEnd(b.get(first.Purchase.ID), purchase.Completed, "", purchase.ByReply)
	if n := b.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	b.audit()
}

// While a repeated key's purchase is being written by a transaction that takes its time, a
// purchase on the same account does not wait for it.
func TestRepeatedRequestDoesNotHoldItsAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := order()
	p := b.submit(sub)
	holder, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT FROM transaction_history WHERE id = $1 FOR UPDATE", p.ID); err != nil {
		t.Fatal(err)
	}
	again, err := b.Submit(t.Context(), sub)
	if err != nil || !again.Repeated {
		t.Errorf("repeated %t (%v)", again.Repeated, err)
	}
	b.wantEnd(b.submit(order()), purchase.Completed, "", purchase.ByReply)
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// fullSpeed is far above what a purchase takes, and far below what a locked row is waited for.
const fullSpeed = time.Second

// One account's row stays locked. Purchases on it wait, both to be recorded and to be
// settled; those on other accounts do not feel it.
func TestLockedAccountDoesNotStallOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("acct-2", "1000000.00")
	on := func(account string) purchase.Submission {
		sub := order()
		sub.AccountID = account
		return sub
	}
	b.submit(on("acct-1"))
	b.submit(on("acct-2"))
	locked := make(chan struct{})
	asked := make(chan struct{}, 10)
	b.broker.beforeEach(func(o map[string]any) {
		if o["account"] == "acct-1" {
			asked <- struct{}{}
			<-locked
		}
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _, _ = b.Submit(t.Context(), on("acct-1")) })
	<-asked
	holder := b.lockAccount("acct-1")
	defer func() { _ = holder.Rollback(t.Context()) }()
	close(locked)
	for range 4 {
		wg.Go(func() { _, _ = b.Submit(t.Context(), on("acct-1")) })
	}
	b.awaitWaiting("SettleReplies")
	b.awaitWaiting("RecordPurchases")
	for range 20 {
		began := time.Now()
		b.submit(on("acct-2"))
		if took := time.Since(began); took > fullSpeed {
			t.Errorf("a purchase on the other account took %s", took)
		}
	}
}
