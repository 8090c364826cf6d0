package api_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"holdfast/api"
)

// stallEvents are more than all buffers on the way take.
const stallEvents = 4_000

// stall opens a stream of all events that nobody reads.
func (s *streaming) stall(t *testing.T) *http.Response {
	t.Helper()
	response := s.request(t, s.operator, "", "0")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("stream: %s", response.Status)
	}
	return response
}

// A stream counts from when it is let in, though it is far from live: for the metric, and
// for the places that there are.
func TestStreamThatCatchesUpCounts(t *testing.T) {
	t.Parallel()
	onEach(t, 1, func(t *testing.T, s *streaming) {
		s.happen(t, "acct", stallEvents)
		s.until(t, stallEvents)
		response := s.stall(t)
		if open, live := s.streams.Open(), s.box.Subscribers(); open != 1 || live != 0 {
			t.Errorf("%d streams, %d of them live, want one that is not live", open, live)
		}
		refused := s.request(t, s.operator, "", "0")
		if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
			t.Errorf("one stream too many: %s", refused.Status)
		}
		response.Body.Close()
		soon(t, "nobody is counted", func() bool { return s.streams.Open() == 0 })
	})
}

// A reader that rests for some seconds in the middle loses nothing, and is not closed.
func TestReaderThatRests(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		s.happen(t, "acct", stallEvents)
		s.until(t, stallEvents)
		response := s.stall(t)
		<-time.After(4 * time.Second) // the rest itself, not a wait
		if s.box.Subscribers() != 0 {
			t.Fatal("all is written: the reader has not held anything up")
		}
		stream := readFrames(t, response)
		for id := range stallEvents {
			stream.wants(strconv.Itoa(id + 1))
		}
		s.happen(t, "acct", 1)
		stream.wants(strconv.Itoa(stallEvents + 1))
	})
}

// A reader that takes no byte is closed after ten seconds, wherever its stream stands.
func TestReaderThatTakesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		s.happen(t, "acct", stallEvents)
		s.until(t, stallEvents)
		begun := time.Now()
		s.stall(t)
		soon(t, "closed", func() bool { return s.streams.Open() == 0 })
		if took := time.Since(begun); took < 8*time.Second || took > 15*time.Second {
			t.Errorf("closed after %v, want about ten seconds", took)
		}
	})
}

// Readers that take nothing hold up no shutdown.
func TestCloseEndsStalledStreams(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		s.happen(t, "acct", stallEvents)
		s.until(t, stallEvents)
		const stalled = 8
		for range stalled {
			s.stall(t)
		}
		begun := time.Now()
		s.streams.Close()
		soon(t, "all closed", func() bool { return s.streams.Open() == 0 })
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// Whoever waits for a turn to read the log hears something meanwhile.
func TestStreamThatWaitsForItsTurnGetsComments(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		s.happen(t, "acct", 2000)
		s.until(t, 2000)
		release := api.HoldTurns(s.streams)
		stream, begun := s.open(t, s.operator, "", "0"), time.Now()
		stream.take()
		block, ok := stream.take()
		if took := time.Since(begun); !ok || block.comment == "" || block.event != "" || took > 15*time.Second {
			t.Errorf("got %+v after %v, want a comment", block, took)
		}
		release()
		for id := range 2000 {
			stream.wants(strconv.Itoa(id + 1))
		}
	})
}
