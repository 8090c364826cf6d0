package api

import (
	"context"
	"math"
	"strconv"
	"time"

	"holdfast/outbox"
)

// Why a stream cannot go on where its client left off.
const (
	resyncUnreadable = "unreadable"
	resyncAhead      = "ahead"
	resyncExpired    = "expired"
)

// start is where a stream begins: after an event, and what to say first if that is not
// where the client wanted.
type start struct {
	after  int64
	resync string
}

// resume finds out where to begin. A recent id needs no query.
func (s *Streams) resume(ctx context.Context, id string) (start, error) {
	position := s.p.Hub.Position()
	if id == "" {
		return start{after: position}, nil
	}
	after, readable := parseEventID(id)
	if !readable {
		return start{position, resyncUnreadable}, nil
	}
	if s.p.Hub.Recent(after) {
		return start{after: after}, nil
	}
	bounds, err := s.p.Events.Bounds(ctx)
	if err != nil {
		return start{}, err
	}
	switch {
	case after > bounds.Last:
		return start{position, resyncAhead}, nil
	case after == 0:
		return start{after: bounds.Dropped}, nil
	case after < bounds.Dropped:
		return start{position, resyncExpired}, nil
	}
	return start{after: after}, nil
}

// parseEventID reads an id as it is written on streams. Digits without end are an id that
// nobody has been given: ahead.
func parseEventID(text string) (id int64, readable bool) {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	if text == "" || (len(text) > 1 && text[0] == '0') {
		return 0, false
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return id, true
}

// join replays the log until the hub can take over, and subscribes: what the hub
// delivers begins exactly behind what was replayed.
func (st *stream) join(begin start) error {
	if begin.resync != "" {
		if err := st.write(resyncEvent(begin.resync)); err != nil {
			return err
		}
	}
	after := begin.after
	for !st.over.Load() {
		if sub := st.streams.p.Hub.Subscribe(st.filter, after, st.wake); sub != nil {
			st.follow(sub)
			return nil
		}
		next, err := st.replay(after)
		if err != nil {
			return err
		}
		after = next
	}
	return errStreamOver
}

func (st *stream) wake(sub *outbox.Subscription) { st.out.wake(st, sub) }

// replayPage is how many events of the log are read and written at once.
const replayPage = 200

// replay writes one page of the log and returns where it ends.
func (st *stream) replay(after int64) (int64, error) {
	if err := st.turn(); err != nil {
		return 0, err
	}
	until := st.streams.p.Hub.Position()
	page, expired, err := st.streams.readPage(st.filter, after, until)
	<-st.streams.replays
	if err != nil {
		return after, st.pause()
	}
	if expired {
		return until, st.write(resyncEvent(resyncExpired))
	}
	if len(page) > 0 {
		if err := st.write(encodeEvents(page)); err != nil {
			return 0, err
		}
	}
	if len(page) < replayPage {
		return until, nil
	}
	return page[len(page)-1].ID, nil
}

// turnComment is how long a stream waits for its turn without a word: what is left of the
// contract's fifteen seconds is for the reading.
const turnComment = 4 * time.Second

// turn takes one of the places of those who read the log; the caller gives it back. While
// thousands come back at once the wait may be long, and its client must not think it dead.
func (st *stream) turn() error {
	for {
		select {
		case st.streams.replays <- struct{}{}:
			return nil
		case <-st.streams.ctx.Done():
			return errStreamOver
		case <-time.After(turnComment):
			if err := st.write(comment); err != nil {
				return err
			}
		}
	}
}

// replayRetry is how long a stream waits before it asks again for a page that the database
// did not give.
const replayRetry = time.Second

// pause waits for the database: its outage ends no stream.
func (st *stream) pause() error {
	select {
	case <-st.streams.ctx.Done():
		return errStreamOver
	case <-time.After(replayRetry):
		return st.write(comment)
	}
}

// readPage tells, too, whether retention has taken some of the page away: asked after the
// reading, so nothing can go unnoticed.
func (s *Streams) readPage(f outbox.Filter, after, until int64) (page []outbox.Event, expired bool, err error) {
	page, err = s.p.Events.Read(s.ctx, f, after, until, replayPage)
	if err != nil {
		return nil, false, err
	}
	bounds, err := s.p.Events.Bounds(s.ctx)
	if err != nil {
		return nil, false, err
	}
	return page, bounds.Dropped > after, nil
}
