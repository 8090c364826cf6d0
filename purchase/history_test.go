package purchase_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/purchase"
)

var (
	histories = flag.Int("histories", 8, "random histories to try")
	seed      = flag.Uint64("seed", rand.Uint64(), "where random histories start")
)

const historySteps = 150

// steps are numbers to draw from.
var steps = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a history in the making: a broker that keeps its promises and nothing more,
// and time that passes when the test says so.
type world struct {
	*bundle
	random *rand.Rand
	open   []purchase.Purchase
	// booked is when the broker booked an order, on the world's clock.
	booked map[string]time.Duration
	clock  time.Duration
	// spoken are the purchases that an operator has resolved, with the number of orders that
	// had been sent for each by then.
	spoken map[string]int
	// second is another broker, renamed a service under its name, as after a restart with
	// other settings.
	second  *fakeBroker
	renamed *purchase.Service
}

const settle = 10 * time.Second

// TestRandomHistories holds every history of answers, crashes, lost jobs, operators, pauses,
// slow statements and restarts under another broker's name to the contract: the invariants hold, nothing is bought twice, and once the broker is
// well, every purchase ends as the broker's books say.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	for i := range *histories {
		from := *seed + uint64(i)
		t.Run(fmt.Sprintf("Seed%d", from), func(t *testing.T) {
			t.Parallel()
			newWorld(t, from).run()
		})
	}
}

func newWorld(t *testing.T, from uint64) *world {
	t.Helper()
	b := setup(t, func(p *purchase.Policy, c *httpbroker.Config, _ *broker.GateConfig) {
		p.PendingGrace, p.MaxAttempts, c.AbsenceLookups = 30*time.Second, 6, 2
	})
	b.fund("acct-rich", "100000.00")
	w := &world{
		bundle: b, random: rand.New(rand.NewPCG(from, 0)),
		booked: map[string]time.Duration{}, spoken: map[string]int{},
		second: newFakeBroker(t),
	}
	w.second.script(always(reply{book: true, drop: true}), nil)
	w.renamed = w.restarted(httpbroker.Config{
		Name: "second", URL: w.second.URL, Timeout: 2 * time.Second, KeyRetention: 24 * time.Hour,
		Settle: settle, Idempotent: true, AbsenceLookups: 2,
	})
	return w
}

// run makes a history. Passes are frequent, as they are between a crash and its end.
func (w *world) run() {
	for range historySteps {
		step := choose(w, steps...)
		switch {
		case step < 2:
			w.submitSome()
		case step < 3:
			w.crash()
		case step < 12:
			w.passSome()
		case step < 16:
			w.timePasses()
		case step < 17:
			w.exec("DELETE FROM river_job WHERE kind = 'reconcile_purchase' AND random() < 0.5")
		case step < 18:
			w.sweep()
		case step < 19:
			w.reconcileSome()
		case step < 20:
			w.resolveSome()
		case step < 21:
			w.pauseOrResume()
		case step < 22:
			w.restart()
		default:
			w.slowPass()
		}
	}
	w.finish()
}

// draw returns one of several things; the broker's handlers call it, which hold its lock.
func draw[T any](w *world, of ...T) T { return of[w.random.IntN(len(of))] }

// choose is draw for the history itself.
func choose[T any](w *world, of ...T) T {
	w.broker.mu.Lock()
	defer w.broker.mu.Unlock()
	return draw(w, of...)
}

// answer draws what the broker does with a place call. A refused order is never booked,
// and what was booked under a key stays the only order there.
func (w *world) answer(order map[string]any) reply {
	key := order["client_order_id"].(string)
	kinds := []string{"complete", "refuse", "fail", "failBooked", "drop", "dropBooked", "garbage", "processing"}
	if w.broker.orders[key] != nil {
		// A broker may look at an order before it looks at the key.
		kinds = []string{"complete", "refuse", "refuse", "drop"}
	}
	kind := draw(w, kinds...)
	answer := map[string]reply{
		"complete":   {book: true, status: 201},
		"refuse":     {status: 422, body: map[string]any{"code": "market_closed"}},
		"fail":       {status: 500},
		"failBooked": {book: true, status: 502},
		"drop":       {drop: true},
		"dropBooked": {book: true, drop: true},
		"garbage":    {book: true, status: 200, body: "<html>"},
		"processing": {book: true, status: 200, body: nil},
	}[kind]
	if answer.book && w.broker.orders[key] == nil {
		w.booked[key] = w.clock
		w.broker.orders[key] = booked(order, len(w.broker.orders)+1)
	}
	if kind == "processing" {
		answer.body = map[string]any{"order_id": w.broker.orders[key]["order_id"], "client_order_id": key, "status": "new"}
	}
	return answer
}

// look draws what the broker says to a lookup: the truth, nothing, or, for no longer than
// the settle time, that it does not know an order yet.
func (w *world) look(key string) reply {
	kinds := []string{"truth", "truth", "fail", "drop"}
	if at, ok := w.booked[key]; ok && w.clock-at < settle {
		kinds = append(kinds, "lag", "lag", "lag")
	}
	switch draw(w, kinds...) {
	case "fail":
		return reply{status: 503}
	case "drop":
		return reply{drop: true}
	case "lag":
		return reply{status: 404}
	default:
		if w.broker.orders[key] == nil {
			return reply{status: 404}
		}
		return reply{status: 200}
	}
}

func richOrder() purchase.Submission {
	sub := order()
	sub.AccountID = "acct-rich"
	return sub
}

func (w *world) submitSome() {
	w.broker.script(w.answer, w.look)
	ctx, giveUp := context.WithCancel(w.t.Context())
	if choose(w, true, false) {
		giveUp() // a client that does not wait for the response
	}
	defer giveUp()
	result, err := w.Submit(ctx, richOrder())
	if err == nil {
		w.open = append(w.open, result.Purchase)
	}
}

// crash is a process that dies after it recorded, before or after the broker booked.
func (w *world) crash() {
	p, err := w.Abandon(w.t.Context(), richOrder())
	if err != nil {
		return
	}
	w.open = append(w.open, p)
	if choose(w, true, false) {
		w.book(p)
	}
}

func (w *world) book(p purchase.Purchase) {
	key := p.BrokerKey
	w.broker.mu.Lock()
	defer w.broker.mu.Unlock()
	w.broker.orders[key] = booked(map[string]any{"client_order_id": key, "symbol": "AAPL", "quantity": "10"}, len(w.broker.orders)+1)
	w.booked[key] = w.clock
}

// pick draws one of the latest purchases, for the old ones have mostly ended.
func (w *world) pick() (purchase.Purchase, bool) {
	if len(w.open) == 0 {
		return purchase.Purchase{}, false
	}
	return choose(w, w.open[max(0, len(w.open)-3):]...), true
}

func (w *world) passSome() {
	if p, ok := w.pick(); ok {
		w.broker.script(w.answer, w.look)
		w.pass(p.ID)
	}
}

func (w *world) timePasses() {
	by := time.Duration(choose(w, 1, 3, 5, 9, 15, 40)) * time.Second
	w.tick(by)
	for _, p := range w.open {
		w.age(p.ID, by)
	}
}

func (w *world) tick(by time.Duration) {
	w.broker.mu.Lock()
	defer w.broker.mu.Unlock()
	w.clock += by
}

func (w *world) sweep() {
	if _, err := w.SweepPending(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.SweepOrphans(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reconcileSome() {
	if p, ok := w.pick(); ok {
		_, _ = w.Reconcile(w.t.Context(), p.ID, "operator:k1")
	}
}

func (w *world) resolveSome() {
	p, ok := w.pick()
	if !ok || choose(w, true, true, true, false) {
		return
	}
	outcome := choose(w, purchase.OutcomeCompleted, purchase.OutcomeRejected)
	_, err := w.Resolve(w.t.Context(), purchase.Resolution{ID: p.ID, Outcome: outcome, Note: "n", Actor: "operator:k1"})
	if err == nil && !w.get(p.ID).Status.Final() {
		w.t.Fatalf("purchase %s was resolved and is not final", p.ID)
	}
	if _, before := w.spoken[p.ID.String()]; err == nil && !before {
		w.spoken[p.ID.String()] = w.sent(p)
	}
}

// sent counts the orders that either broker was sent for a purchase.
func (w *world) sent(p purchase.Purchase) int {
	return len(w.broker.placed(p)) + len(w.second.placed(p))
}

// restarted is a service with other settings of the broker.
func (w *world) restarted(c httpbroker.Config) *purchase.Service {
	w.t.Helper()
	client, err := httpbroker.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.serviceOver(client, broker.GateConfig{})
}

// restart is a process that comes back under another broker's name: it buys there, and
// leaves the purchases of the first alone.
func (w *world) restart() {
	result, err := w.renamed.Submit(w.t.Context(), richOrder())
	if err != nil {
		w.t.Fatal(err)
	}
	w.open = append(w.open, result.Purchase)
	for _, p := range w.open {
		if _, err := w.renamed.Pass(w.t.Context(), p.ID, 0); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) pauseOrResume() {
	paused := choose(w, true, false, false)
	if err := w.switches.Set(w.t.Context(), purchase.SwitchPasses, paused, "n", "operator:k1"); err != nil {
		w.t.Fatal(err)
	}
}

// slowPass is a pass that waits for its purchase's row, for however long, after its lookup,
// while an operator makes a decision.
func (w *world) slowPass() {
	p, ok := w.pick()
	if !ok {
		return
	}
	w.broker.script(w.answer, w.look)
	waited := time.Duration(choose(w, 1, 5, 40, 130)) * time.Second
	var passing sync.WaitGroup
	looked, ended := make(chan func(), 1), make(chan struct{})
	s := w.serviceOver(afterLookup{w.wire, func() { looked <- w.hold(p) }}, broker.GateConfig{})
	w.due(p)
	passing.Go(func() {
		defer close(ended)
		if _, err := s.Pass(w.t.Context(), p.ID, 0); err != nil {
			w.t.Error(err)
		}
	})
	select {
	case release := <-looked:
		if _, err := w.resolveRejected(p); err == nil {
			w.t.Errorf("purchase %s was resolved while a pass was in flight", p.ID)
		}
		release()
		w.tick(waited)
		for _, other := range w.open {
			w.age(other.ID, waited)
		}
		<-ended
	case <-ended:
	}
	passing.Wait()
	w.exec("UPDATE transaction_history SET leased_until = NULL WHERE leased_until <= now()")
}

// afterLookup is a broker after whose lookups something happens.
type afterLookup struct {
	broker.Broker
	do func()
}

func (b afterLookup) Lookup(ctx context.Context, q broker.Query) broker.Answer {
	defer b.do()
	return b.Broker.Lookup(ctx, q)
}

// finish lets the broker be well and time pass until everything has ended.
func (w *world) finish() {
	w.broker.script(nil, nil)
	w.second.script(nil, nil)
	if err := w.switches.Set(w.t.Context(), purchase.SwitchPasses, false, "", "operator:k1"); err != nil {
		w.t.Fatal(err)
	}
	w.tick(time.Minute)
	for _, p := range w.open {
		w.age(p.ID, time.Minute)
	}
	w.sweep()
	for _, p := range w.open {
		w.end(p)
	}
	w.audit()
}

func (w *world) end(p purchase.Purchase) {
	if w.get(p.ID).Status == purchase.ManualReview {
		if _, err := w.Reconcile(w.t.Context(), p.ID, "operator:k1"); err != nil {
			w.t.Fatal(err)
		}
	}
	for range 4 {
		w.age(p.ID, time.Minute)
		w.pass(p.ID)
		w.due(p)
		if _, err := w.renamed.Pass(w.t.Context(), p.ID, 0); err != nil {
			w.t.Fatal(err)
		}
	}
	w.compare(p)
}

// compare holds what a purchase became against the books of the two brokers.
func (w *world) compare(p purchase.Purchase) {
	now := w.get(p.ID)
	if !now.Status.Final() {
		w.t.Fatalf("purchase %s is %s though the broker is well", p.ID, now.Status)
	}
	sent, spoken := w.spoken[p.ID.String()]
	if spoken && w.sent(p) != sent {
		w.t.Fatalf("purchase %s: %d orders sent when it was resolved, %d now", p.ID, sent, w.sent(p))
	}
	mine, other := w.broker, w.second
	if p.Broker == "second" {
		mine, other = w.second, w.broker
	}
	if len(other.placed(p)) > 0 {
		w.t.Fatalf("purchase %s was sent to another broker than its own", p.ID)
	}
	mine.mu.Lock()
	defer mine.mu.Unlock()
	if bought := mine.orders[p.BrokerKey] != nil; !spoken && bought != (now.Status == purchase.Completed) {
		w.t.Fatalf("purchase %s is %s; the broker's books say bought: %t", p.ID, now.Status, bought)
	}
	for _, body := range mine.bodies[p.BrokerKey] {
		if body != mine.bodies[p.BrokerKey][0] {
			w.t.Fatalf("purchase %s sent two requests:\n%s\n%s", p.ID, mine.bodies[p.BrokerKey][0], body)
		}
	}
}
