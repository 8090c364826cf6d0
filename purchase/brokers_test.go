package purchase_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/account"
	"holdfast/alert"
	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/jobs"
	"holdfast/purchase"
)

// several is a service with two brokers, alpha and beta; alpha is the default.
type several struct {
	*bundle
	alpha, beta *fakeBroker
	members     []purchase.Member
}

func setupSeveral(t *testing.T, changes ...func(alpha, beta *purchase.Member)) *several {
	t.Helper()
	b := setup(t, func(p *purchase.Policy, c *httpbroker.Config, _ *broker.GateConfig) { c.Settle = 0 })
	s := &several{bundle: b, alpha: b.broker, beta: newFakeBroker(t)}
	alpha, beta := s.member("alpha", s.alpha), s.member("beta", s.beta)
	for _, change := range changes {
		change(&alpha, &beta)
	}
	s.members = []purchase.Member{alpha, beta}
	s.Service = s.serve(alpha, beta)
	return s
}

func (s *several) member(name string, fake *fakeBroker) purchase.Member {
	s.t.Helper()
	client, err := httpbroker.New(httpbroker.Config{
		Name: name, URL: fake.URL, Timeout: 2 * time.Second, KeyRetention: 24 * time.Hour, Idempotent: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return purchase.Member{Broker: client, Gate: broker.NewGate(broker.GateConfig{}), Policy: s.policy}
}

// breakable gives a member a breaker that opens at the first failure.
func breakable(m *purchase.Member) {
	m.Gate = broker.NewGate(broker.GateConfig{Failures: 1, Open: time.Hour})
}

// serve returns a service over members, as in another process: it remembers nothing of the
// accounts.
func (s *several) serve(first purchase.Member, others ...purchase.Member) *purchase.Service {
	s.t.Helper()
	return s.serveOn(s.pool, first, others...)
}

func (s *several) serveOn(pool *pgxpool.Pool, first purchase.Member, others ...purchase.Member) *purchase.Service {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	scheduler, err := jobs.NewScheduler(pool)
	if err != nil {
		s.t.Fatal(err)
	}
	return purchase.New(purchase.Params{
		Pool: pool, Accounts: account.New(pool), Brokers: purchase.NewBrokers(first, others...), Scheduler: scheduler,
		Alerts: alert.New(pool, scheduler, log), Committed: func() {}, Switches: s.switches, Observer: s.seen, Log: log,
	})
}

// move sets an account's broker, as another process does.
func (s *several) move(id, broker, brokerAccount string) {
	s.t.Helper()
	if _, err := s.accounts.SetBroker(s.t.Context(), id, &broker, &brokerAccount); err != nil {
		s.t.Fatal(err)
	}
}

// account is the name of the account in the one order that a broker got under a key.
func (b *fakeBroker) account(t *testing.T, p purchase.Purchase) string {
	t.Helper()
	placed := b.placed(p)
	if len(placed) != 1 {
		t.Fatalf("%d orders under %s, want 1", len(placed), p.BrokerKey)
	}
	var order struct{ Account string }
	if err := json.Unmarshal([]byte(placed[0]), &order); err != nil {
		t.Fatal(err)
	}
	return order.Account
}

func orderOf(account string) purchase.Submission {
	o := order()
	o.AccountID = account
	return o
}

func (s *several) wantUnavailable(service *purchase.Service, sub purchase.Submission, detail string) {
	s.t.Helper()
	_, err := service.Submit(s.t.Context(), sub)
	var unavailable *purchase.UnavailableError
	if !errors.As(err, &unavailable) || !strings.Contains(unavailable.Detail, detail) || unavailable.RetryAfter <= 0 {
		s.t.Errorf("error is %v, want unavailable: %s", err, detail)
	}
}

func TestAnAccountChoosesItsBroker(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t)
	s.fund("acct-2", "1000.00")
	s.move("acct-2", "beta", "customer-7")
	first, second := s.submit(orderOf("acct-1")), s.submit(orderOf("acct-2"))
	if first.Broker != "alpha" || second.Broker != "beta" {
		t.Errorf("brokers are %s and %s", first.Broker, second.Broker)
	}
	if name := s.alpha.account(t, first); name != "acct-1" {
		t.Errorf("alpha's account is %q", name)
	}
	if name := s.beta.account(t, second); name != "customer-7" {
		t.Errorf("beta's account is %q", name)
	}
	s.audit()
}

// Whatever process changed it, and however long this one has known the account.
func TestAChangedBrokerTakesTheNextPurchase(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t)
	for _, want := range []string{"alpha", "beta", "alpha"} {
		s.move("acct-1", want, "name-at-"+want)
		if p := s.submit(order()); p.Broker != want {
			t.Errorf("purchase went to %s, want %s", p.Broker, want)
		}
	}
}

func TestOpenPurchasesKeepTheirBroker(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t)
	s.alpha.script(always(reply{book: true, status: 500}), nil)
	p := s.submit(order())
	s.move("acct-1", "beta", "")
	if outcome := s.pass(p.ID); outcome.Result != "completed" {
		t.Errorf("pass: %+v", outcome)
	}
	if got := s.get(p.ID); got.Broker != "alpha" || s.alpha.lookedUp(p) != 1 || s.beta.lookedUp(p) != 0 {
		t.Errorf("broker %s, %d lookups at alpha, %d at beta", got.Broker, s.alpha.lookedUp(p), s.beta.lookedUp(p))
	}
}

// A repeated request is the same request whatever its account's broker is by now.
func TestARepeatAfterTheBrokerHasChanged(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t)
	sub := order()
	first := s.submit(sub)
	for _, now := range []string{"beta", "gone"} {
		s.move("acct-1", now, "other-name")
		again, err := s.Submit(t.Context(), sub)
		if err != nil || !again.Repeated || again.Purchase.ID != first.ID || again.Purchase.Broker != "alpha" {
			t.Errorf("account at %s: %+v, %v", now, again, err)
		}
	}
	if s.beta.bought() != 0 {
		t.Error("the repeat was placed")
	}
}

func TestAnUnservedBrokerRecordsNothing(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t)
	s.move("acct-1", "gamma", "")
	s.wantUnavailable(s.Service, order(), "gamma")
	s.wantUnavailable(s.serve(s.members[0]), order(), "gamma")
	if n := s.count("SELECT count(*) FROM transaction_history"); n != 0 || s.alpha.bought() != 0 {
		t.Errorf("%d purchases, %d orders", n, s.alpha.bought())
	}
	s.wantMoney("1000.00", "0.00", "0.00")
}

// A process with another broker leaves the purchase alone; one with both makes the pass.
func TestPassesAreMadeWhereTheBrokerIsServed(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t)
	s.move("acct-1", "beta", "")
	s.beta.script(always(reply{book: true, status: 500}), nil)
	p := s.submit(order())
	gamma := s.member("gamma", newFakeBroker(t))
	for _, other := range []*purchase.Service{s.serve(s.members[0]), s.serve(s.members[0], gamma)} {
		outcome, err := other.Pass(t.Context(), p.ID, 0)
		if err != nil || outcome.Result != "nothing" || outcome.Again < time.Minute {
			t.Errorf("unserved: %+v, %v", outcome, err)
		}
	}
	if outcome := s.pass(p.ID); outcome.Result != "completed" {
		t.Errorf("served: %+v", outcome)
	}
}

// The breaker, the switches and the limits of one broker are not another's.
func TestOneBrokerDoesNotDisturbAnother(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t, func(_, beta *purchase.Member) {
		beta.Policy.MaxAttempts = 1
		breakable(beta)
	})
	s.fund("acct-2", "1000.00")
	s.move("acct-2", "beta", "")
	s.beta.script(always(reply{book: true, status: 500}), alwaysFor(reply{status: 500}))
	down := s.submit(orderOf("acct-2"))
	s.wantUnavailable(s.Service, orderOf("acct-2"), "does not answer")
	if p := s.submit(order()); p.Status != purchase.Completed {
		t.Errorf("alpha: %s", p.Status)
	}
	states := s.Brokers()
	alpha, _ := states.State("alpha")
	if beta, _ := states.State("beta"); alpha != broker.Closed || beta != broker.Open || states.WorstState() != broker.Open {
		t.Errorf("states are %s, %s, worst %s", alpha, beta, states.WorstState())
	}
	sw := purchase.Switch{Name: purchase.SwitchIntake, Broker: "alpha"}
	if err := s.switches.SetFor(t.Context(), sw, true, "", "operator:test"); err != nil {
		t.Fatal(err)
	}
	s.wantUnavailable(s.Service, order(), "paused")
	if got := s.AttemptsLimit(s.get(down.ID)); got != 1 {
		t.Errorf("beta's attempts limit is %d", got)
	}
}

// Each broker's own limits hold, and the default's for a broker that is not served.
func TestLimitsAreThoseOfThePurchasesBroker(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t, func(alpha, beta *purchase.Member) {
		alpha.Policy.MaxAge, beta.Policy.MaxAge = 2*time.Hour, 4*time.Hour
	})
	s.alpha.script(always(reply{status: 500}), nil)
	s.beta.script(always(reply{status: 500}), nil)
	ids := map[string]purchase.Purchase{}
	for _, name := range []string{"alpha", "beta", "gone"} {
		s.move("acct-1", strings.Replace(name, "gone", "beta", 1), "")
		ids[name] = s.submit(order())
		s.age(ids[name].ID, 3*time.Hour)
	}
	s.exec("UPDATE transaction_history SET broker = 'gone' WHERE id = $1", ids["gone"].ID)
	if n, err := s.SweepLimits(t.Context()); n != 2 || err != nil {
		t.Errorf("%d purchases, %v", n, err)
	}
	want := map[string]purchase.Status{"alpha": purchase.ManualReview, "beta": purchase.Unknown, "gone": purchase.ManualReview}
	for name, p := range ids {
		if got := s.get(p.ID); got.Status != want[name] {
			t.Errorf("%s: %s, want %s", name, got.Status, want[name])
		}
	}
}

// A refusal is not final while what is known of the account may be out of date.
func TestARefusalIsNotBasedOnAFormerBroker(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t, func(_, beta *purchase.Member) { breakable(beta) })
	s.beta.script(always(reply{status: 500}), nil)
	s.move("acct-1", "beta", "")
	s.submit(order())
	s.wantUnavailable(s.Service, order(), "does not answer")
	s.move("acct-1", "alpha", "") // by another process: this one is not told
	deadline := time.Now().Add(10 * time.Second)
	for {
		result, err := s.Submit(t.Context(), order())
		if err == nil {
			if result.Purchase.Broker != "alpha" {
				t.Errorf("purchase went to %s", result.Purchase.Broker)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still refused: %v", err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// A broker whose passes take long keeps some places, not every worker.
func TestASlowBrokerKeepsItsOwnPlaces(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t, func(alpha, beta *purchase.Member) { alpha.MaxPasses, beta.MaxPasses = 1, 1 })
	s.alpha.script(always(reply{book: true, status: 500}), nil)
	first, second := s.submit(order()), s.submit(order())
	asked, answer := make(chan struct{}), make(chan struct{})
	s.alpha.script(nil, func(string) reply {
		close(asked)
		<-answer
		return reply{status: 200}
	})
	var slow sync.WaitGroup
	slow.Go(func() { s.pass(first.ID) })
	<-asked
	if outcome := s.pass(second.ID); outcome.Result != "put_off" || outcome.Again <= 0 || outcome.Again > 20*time.Second {
		t.Errorf("no place: %+v", outcome)
	}
	close(answer)
	slow.Wait()
	s.alpha.script(nil, nil)
	if outcome := s.pass(second.ID); outcome.Result != "completed" {
		t.Errorf("place: %+v", outcome)
	}
}

// statements counts what is sent to the database.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Serving several brokers costs a purchase nothing, and a pass one read.
func TestStatementsOfAPurchase(t *testing.T) {
	t.Parallel()
	s := setupSeveral(t)
	s.deposit("acct-1", "1000.00")
	var sent statements
	config := s.pool.Config()
	config.ConnConfig.Tracer = &sent
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	one, two := s.serveOn(pool, s.members[0]), s.serveOn(pool, s.members[0], s.members[1])
	passes := map[*purchase.Service]int64{}
	for _, service := range []*purchase.Service{one, two} {
		s.Service = service
		s.submit(order())
		before := sent.n.Load()
		s.submit(order())
		if n := sent.n.Load() - before; n != 2 {
			t.Errorf("a purchase takes %d statements, want 2: record and settle", n)
		}
		lost := s.lost(true)
		before = sent.n.Load()
		if outcome := s.pass(lost.ID); outcome.Result != "completed" {
			t.Errorf("pass: %+v", outcome)
		}
		passes[service] = sent.n.Load() - before
	}
	if passes[two] != passes[one]+1 {
		t.Errorf("a pass takes %d statements with one broker, %d with two", passes[one], passes[two])
	}
}
