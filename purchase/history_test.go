package purchase_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
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
var steps = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}

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
	// spoken are the purchases that an operator has resolved.
	spoken map[string]bool
}

const settle = 10 * time.Second

// TestRandomHistories holds every history of answers, crashes, lost jobs and operators
// to the contract: the invariants hold, nothing is bought twice, and once the broker is
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
	b := setup(t, func(p *purchase.Policy, _ *httpbroker.Config, _ *broker.GateConfig) {
		p.PendingGrace, p.MaxAttempts = 30*time.Second, 6
	})
	b.fund("acct-rich", "100000.00")
	return &world{
		bundle: b, random: rand.New(rand.NewPCG(from, 0)),
		booked: map[string]time.Duration{}, spoken: map[string]bool{},
	}
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
			w.exec("DELETE FROM river_job WHERE random() < 0.5")
		case step < 18:
			w.sweep()
		case step < 19:
			w.reconcileSome()
		default:
			w.resolveSome()
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
	result, err := w.Submit(w.t.Context(), richOrder())
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
	if err == nil {
		w.spoken[p.ID.String()] = true
	}
}

// finish lets the broker be well and time pass until everything has ended.
func (w *world) finish() {
	w.broker.script(nil, nil)
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
	for range 3 {
		w.pass(p.ID)
	}
	now := w.get(p.ID)
	key := p.BrokerKey
	w.broker.mu.Lock()
	defer w.broker.mu.Unlock()
	if !now.Status.Final() {
		w.t.Fatalf("purchase %s is %s though the broker is well", p.ID, now.Status)
	}
	if bought := w.broker.orders[key] != nil; !w.spoken[p.ID.String()] && bought != (now.Status == purchase.Completed) {
		w.t.Fatalf("purchase %s is %s; the broker's books say bought: %t", p.ID, now.Status, bought)
	}
	for _, body := range w.broker.bodies[key] {
		if body != w.broker.bodies[key][0] {
			w.t.Fatalf("purchase %s sent two requests:\n%s\n%s", p.ID, w.broker.bodies[key][0], body)
		}
	}
}
