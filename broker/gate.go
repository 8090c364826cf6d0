package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"
)

// State is the state of the breaker.
type State string

const (
	// Closed: calls pass.
	Closed State = "closed"
	// Open: no call passes until the interval is over.
	Open State = "open"
	// HalfOpen: one call passes as a probe; its fate decides.
	HalfOpen State = "half_open"
)

// GateConfig sets a gate's limits.
type GateConfig struct {
	// Failures is how many calls in a row without an answer, or with a 5xx, open the
	// breaker. Zero turns the breaker off.
	Failures int
	// Open is how long an open breaker lets nothing through; zero means 10 s.
	Open time.Duration
	// Rate is how many calls a second WaitTurn lets through; zero means no limit.
	Rate float64
	// MaxInFlight bounds the calls that are in progress at once; zero means no bound.
	MaxInFlight int
	// OnState hears of each change of state, in order, one at a time, on the goroutine
	// of some caller of the gate. It may use the gate.
	OnState func(from, to State)
}

// defaultOpen is the breaker's interval where the configuration gives none.
const defaultOpen = 10 * time.Second

// overloadRetry is what a caller is told to wait while too many calls are in progress:
// one of them ends within a broker timeout, mostly much sooner.
const overloadRetry = time.Second

// Gate keeps manners towards one broker, for one process: it stops calling a broker
// that is plainly down, bounds the calls in progress, and paces the workers. It is safe
// for concurrent use.
type Gate struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}] // nil where turned off
	limiter *rate.Limiter
	open    time.Duration
	max     int64
	flying  atomic.Int64
	news    news

	// openUntil is when the present open interval ends, in Unix nanoseconds.
	openUntil atomic.Int64
}

// ClosedReason says why a gate let a call not through.
type ClosedReason string

const (
	// ReasonBreaker: the broker is taken to be down.
	ReasonBreaker ClosedReason = "breaker"
	// ReasonOverload: too many calls are in progress.
	ReasonOverload ClosedReason = "overload"
)

// ClosedError is the refusal of [Gate.Enter]: nothing was sent.
type ClosedError struct {
	Reason ClosedReason
	// RetryAfter is the wait after which another try makes sense, above zero.
	RetryAfter time.Duration
}

func (e *ClosedError) Error() string {
	return fmt.Sprintf("enter broker gate: %s, again in %s", e.Reason, e.RetryAfter)
}

// NewGate returns a gate that lets calls through.
func NewGate(config GateConfig) *Gate {
	g := &Gate{
		limiter: newLimiter(config.Rate),
		open:    config.Open,
		max:     int64(config.MaxInFlight),
		news:    news{hear: config.OnState},
	}
	if g.open <= 0 {
		g.open = defaultOpen
	}
	if config.Failures > 0 {
		g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](g.settings(uint32(config.Failures)))
	}
	return g
}

// errUnanswered and errCancelled tell the breaker how a call ended.
var (
	errUnanswered = errors.New("broker did not answer")
	errCancelled  = errors.New("call was not made")
)

func (g *Gate) settings(failures uint32) gobreaker.Settings {
	return gobreaker.Settings{
		Name:        "broker",
		MaxRequests: 1, // one probe
		Timeout:     g.open,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, errCancelled) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				g.openUntil.Store(time.Now().Add(g.open).UnixNano())
			}
			g.news.add(change{stateOf(from), stateOf(to)})
		},
	}
}

// newLimiter allows a twentieth of a second's turns at once: timers are too coarse to
// hand out thousands of turns a second one by one.
func newLimiter(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond/20)))
}

// Enter asks for one call's permission and never blocks. A refusal is a [*ClosedError].
// Whoever is let in must call exactly one of Done and Cancel: a probe that never ends
// keeps the breaker half open permanently.
func (g *Gate) Enter() (*Call, error) {
	defer g.news.tell()
	if n := g.flying.Add(1); g.max > 0 && n > g.max {
		g.flying.Add(-1)
		return nil, &ClosedError{Reason: ReasonOverload, RetryAfter: overloadRetry}
	}
	call := &Call{gate: g, done: func(error) {}}
	if g.breaker == nil {
		return call, nil
	}
	done, err := g.breaker.Allow()
	if err != nil {
		g.flying.Add(-1)
		return nil, &ClosedError{Reason: ReasonBreaker, RetryAfter: g.retryAfter(err)}
	}
	call.done = done
	return call, nil
}

// retryAfter is the rest of the open interval, or, while a probe is in progress, a tenth
// of it: probes are answered soon or time out, and then the interval starts again.
func (g *Gate) retryAfter(err error) time.Duration {
	if errors.Is(err, gobreaker.ErrTooManyRequests) {
		return max(g.open/10, min(time.Second, g.open))
	}
	rest := time.Until(time.Unix(0, g.openUntil.Load()))
	return min(max(rest, time.Millisecond), g.open)
}

// WaitTurn waits for the caller's turn at the workers' rate. It fails when ctx ends, or
// at once when the turn would come after ctx's deadline.
func (g *Gate) WaitTurn(ctx context.Context) error {
	if err := g.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("wait for turn at broker: %w", err)
	}
	return nil
}

// State tells the breaker's state now. A breaker that is turned off is closed.
func (g *Gate) State() State {
	if g.breaker == nil {
		return Closed
	}
	defer g.news.tell()
	return stateOf(g.breaker.State())
}

// InFlight tells how many calls are in progress.
func (g *Gate) InFlight() int { return int(g.flying.Load()) }

func stateOf(s gobreaker.State) State {
	switch s {
	case gobreaker.StateOpen:
		return Open
	case gobreaker.StateHalfOpen:
		return HalfOpen
	default:
		return Closed
	}
}

// Call is the permission for one call.
type Call struct {
	gate  *Gate
	done  func(error)
	ended atomic.Bool
}

// Done reports how the call ended; answered is [Answer.Answered].
func (c *Call) Done(answered bool) {
	if answered {
		c.end(nil)
		return
	}
	c.end(errUnanswered)
}

// Cancel says that the call was not made: it counts for nothing. After Done it does
// nothing, so it may be deferred.
func (c *Call) Cancel() { c.end(errCancelled) }

func (c *Call) end(err error) {
	if c.ended.Swap(true) {
		return
	}
	c.gate.flying.Add(-1)
	c.done(err)
	c.gate.news.tell()
}

type change struct{ from, to State }

// news passes changes of state on outside the breaker's lock, so that a slow hearer
// holds up one caller and not every broker call of the process.
type news struct {
	hear    func(from, to State)
	mu      sync.Mutex
	waiting []change
	telling bool
}

func (n *news) add(c change) {
	if n.hear == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(n.waiting, c)
}

// tell passes on what waits, unless another goroutine is at it and will.
func (n *news) tell() {
	if n.hear == nil {
		return
	}
	n.mu.Lock()
	if n.telling {
		n.mu.Unlock()
		return
	}
	n.telling = true
	for len(n.waiting) > 0 {
		next := n.waiting[0]
		n.waiting = n.waiting[1:]
		n.mu.Unlock()
		n.hear(next.from, next.to)
		n.mu.Lock()
	}
	n.telling = false
	n.mu.Unlock()
}
