package broker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/broker"
)

// call makes one call through the gate and tells what refused it, if anything did.
func call(t *testing.T, g *broker.Gate, answered bool) *broker.ClosedError {
	t.Helper()
	c, err := g.Enter()
	if err != nil {
		return refusal(t, err)
	}
	c.Done(answered)
	return nil
}

// let makes one call that must get through.
func let(t *testing.T, g *broker.Gate, answered bool) {
	t.Helper()
	enter(t, g).Done(answered)
}

func refusal(t *testing.T, err error) *broker.ClosedError {
	t.Helper()
	var closed *broker.ClosedError
	if !errors.As(err, &closed) {
		t.Fatalf("refusal is %v, want a *ClosedError", err)
	}
	return closed
}

func enter(t *testing.T, g *broker.Gate) *broker.Call {
	t.Helper()
	c, err := g.Enter()
	if err != nil {
		t.Fatalf("Enter: %v", err)
	}
	return c
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	g := broker.NewGate(broker.GateConfig{Failures: 3, Open: time.Minute})
	for _, answered := range []bool{false, false, true, false, false} {
		if call(t, g, answered) != nil || g.State() != broker.Closed {
			t.Fatal("breaker opened before three failures in a row")
		}
	}
	let(t, g, false)
	if g.State() != broker.Open {
		t.Fatalf("state after three failures in a row: %s", g.State())
	}
	closed := call(t, g, true)
	if closed == nil || closed.Reason != broker.ReasonBreaker {
		t.Fatalf("refusal = %+v, want breaker", closed)
	}
	if closed.RetryAfter <= 0 || closed.RetryAfter > time.Minute {
		t.Fatalf("RetryAfter = %s, want the rest of the minute", closed.RetryAfter)
	}
	if g.InFlight() != 0 {
		t.Fatalf("a refused call stays in flight: %d", g.InFlight())
	}
}

func TestBreakerLetsOneProbeThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := broker.NewGate(broker.GateConfig{Failures: 1, Open: 10 * time.Second})
		let(t, g, false)
		time.Sleep(9 * time.Second)
		if closed := call(t, g, true); closed == nil || closed.RetryAfter != time.Second {
			t.Fatalf("refusal a second before the interval ends: %+v", closed)
		}
		time.Sleep(time.Second + 1)
		probe := enter(t, g)
		if closed := call(t, g, true); closed == nil || closed.RetryAfter <= 0 {
			t.Fatalf("a second probe went through: %+v", closed)
		}
		probe.Done(false)
		if closed := call(t, g, true); closed == nil || closed.RetryAfter != 10*time.Second {
			t.Fatalf("after a failed probe: %+v, want a whole interval more", closed)
		}
		time.Sleep(10*time.Second + 1)
		let(t, g, true)
		if g.State() != broker.Closed || call(t, g, true) != nil {
			t.Fatalf("state after an answered probe: %s", g.State())
		}
	})
}

func TestCancelledCallCountsForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := broker.NewGate(broker.GateConfig{Failures: 2, Open: time.Second})
		let(t, g, false)
		enter(t, g).Cancel() // neither breaks the row of failures nor adds to it
		if g.State() != broker.Closed {
			t.Fatal("a cancelled call counted as a failure")
		}
		let(t, g, false)
		if g.State() != broker.Open {
			t.Fatal("a cancelled call counted as an answer")
		}
		time.Sleep(time.Second + 1)
		enter(t, g).Cancel()
		probe := enter(t, g) // the cancelled probe gave its place back
		probe.Done(true)
		probe.Cancel() // after Done: nothing
		if g.State() != broker.Closed || g.InFlight() != 0 {
			t.Fatalf("state %s, %d in flight", g.State(), g.InFlight())
		}
	})
}

func TestBreakerTurnedOff(t *testing.T) {
	t.Parallel()
	g := broker.NewGate(broker.GateConfig{})
	for range 1000 {
		if call(t, g, false) != nil {
			t.Fatal("a breaker that is off refused a call")
		}
	}
	if g.State() != broker.Closed {
		t.Fatalf("state: %s", g.State())
	}
}

func TestCallsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	g := broker.NewGate(broker.GateConfig{MaxInFlight: 2})
	first := enter(t, g)
	enter(t, g)
	_, err := g.Enter()
	if closed := refusal(t, err); closed.Reason != broker.ReasonOverload || closed.RetryAfter <= 0 {
		t.Fatalf("third call: %+v", closed)
	}
	first.Done(true)
	first.Done(true) // twice frees one place, not two
	enter(t, g)
	if _, err := g.Enter(); err == nil {
		t.Fatal("one ended call freed two places")
	}
}

func TestWaitTurnPacesWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := broker.NewGate(broker.GateConfig{Rate: 10})
		start := time.Now()
		for range 21 {
			if err := g.WaitTurn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took.Round(time.Millisecond) != 2*time.Second {
			t.Fatalf("21 turns at 10 a second took %s, want 2s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.WaitTurn(ctx); err == nil {
			t.Fatal("WaitTurn gave a turn before its time")
		}
	})
}

func TestStateChangesAreToldInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g *broker.Gate
		var told []string
		g = broker.NewGate(broker.GateConfig{Failures: 1, Open: time.Second, OnState: func(from, to broker.State) {
			g.State() // the gate may be used from here
			told = append(told, string(from+">"+to))
		}})
		let(t, g, false)
		time.Sleep(time.Second + 1)
		let(t, g, true)
		want := []string{"closed>open", "open>half_open", "half_open>closed"}
		if !slices.Equal(told, want) {
			t.Fatalf("told %v, want %v", told, want)
		}
	})
}

func TestGateUnderConcurrentCalls(t *testing.T) {
	t.Parallel()
	g := broker.NewGate(broker.GateConfig{Failures: 5, Open: time.Microsecond, MaxInFlight: 4, OnState: func(_, _ broker.State) {}})
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 500 {
				if c, err := g.Enter(); err == nil {
					c.Done((i+worker)%3 == 0)
				}
			}
		})
	}
	group.Wait()
	if g.InFlight() != 0 {
		t.Fatalf("%d calls in flight after all ended", g.InFlight())
	}
}
