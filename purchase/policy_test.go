package purchase

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWaitDoublesUpToTheCap(t *testing.T) {
	t.Parallel()
	policy := Policy{RetryBase: time.Minute, RetryCap: 30 * time.Minute}
	want := []float64{1, 2, 4, 8, 16, 30, 30}
	for i, minutes := range want {
		if got := policy.Wait(i + 1); got.Minutes() != minutes {
			t.Errorf("after pass %d: %s, want %v min", i+1, got, minutes)
		}
	}
}

func TestWaitStaysWithinJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{
			RetryBase: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			RetryCap:  time.Duration(rapid.Int64Range(1, int64(48*time.Hour)).Draw(t, "cap")),
			Jitter:    rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		n := rapid.IntRange(1, 10_000).Draw(t, "n")
		middle := float64(policy.backoff(n))
		got := float64(policy.Wait(n))
		if got < middle*(1-policy.Jitter)-1 || got > middle*(1+policy.Jitter)+1 {
			t.Fatalf("wait %v is outside %v ± %v", got, middle, policy.Jitter)
		}
	})
}

func TestWaitSpreadsEvenly(t *testing.T) {
	t.Parallel()
	policy := Policy{RetryBase: time.Second, RetryCap: time.Second, Jitter: 0.2}
	const draws, buckets = 40_000, 8
	var counts [buckets]int
	for range draws {
		share := (policy.Wait(1).Seconds() - 0.8) / 0.4
		counts[min(int(share*buckets), buckets-1)]++
	}
	for i, n := range counts {
		if n < draws/buckets*8/10 || n > draws/buckets*12/10 {
			t.Errorf("eighth %d has %d of %d draws", i, n, draws)
		}
	}
}
