package api_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"holdfast/api"
)

// stallEvents are more than the ring holds, and than all buffers on the way take beyond it.
const stallEvents = 8_000

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
	all := onAll(t)
	resting := map[string]*http.Response{}
	for name, s := range all {
		s.happen(t, "acct", stallEvents)
		s.until(t, stallEvents)
		resting[name] = s.stall(t)
	}
	<-time.After(4 * time.Second) // the rest itself, not a wait
	for name, s := range all {
		if s.box.Subscribers() != 0 {
			t.Fatalf("%s: all is written: the reader has not held anything up", name)
		}
		stream := readFrames(t, resting[name])
		for id := range stallEvents {
			stream.wants(strconv.Itoa(id + 1))
		}
		s.happen(t, "acct", 1)
		stream.wants(strconv.Itoa(stallEvents + 1))
	}
}

// A reader that takes no byte is closed after ten seconds, wherever its stream stands.
func TestReaderThatTakesNothing(t *testing.T) {
	t.Parallel()
	all, stalled := onAll(t), map[string]time.Time{}
	for name, s := range all {
		s.happen(t, "acct", stallEvents)
		s.until(t, stallEvents)
		stalled[name] = time.Now()
		s.stall(t)
	}
	for len(stalled) > 0 {
		for name, begun := range stalled {
			took := time.Since(begun)
			if all[name].streams.Open() == 0 {
				delete(stalled, name)
			}
			if closed := stalled[name].IsZero(); (closed && took < 8*time.Second) || took > 15*time.Second {
				t.Fatalf("%s: closed %v after %v, want about ten seconds", name, closed, took)
			}
		}
		<-time.After(20 * time.Millisecond)
	}
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
	all, waiting, release := onAll(t), map[string]*frames{}, map[string]func(){}
	begun := time.Now()
	for name, s := range all {
		s.happen(t, "acct", stallEvents)
		s.until(t, stallEvents)
		release[name] = api.HoldTurns(s.streams)
		begun = time.Now()
		waiting[name] = s.open(t, s.operator, "", "0")
		waiting[name].take()
	}
	for name, stream := range waiting {
		block, ok := stream.take()
		if took := time.Since(begun); !ok || block.comment == "" || block.event != "" || took > 15*time.Second {
			t.Errorf("%s: got %+v after %v, want a comment", name, block, took)
		}
		release[name]()
		for id := range stallEvents {
			stream.wants(strconv.Itoa(id + 1))
		}
	}
}
