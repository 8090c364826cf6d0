package brokertest

import (
	"context"
	"testing"
	"time"

	"holdfast/broker"
)

// exerciseSendBefore: an order or a lookup that is too late is not sent, and one that was sent in time
// is waited for.
func exerciseSendBefore(t *testing.T, d Dialect) {
	b := d.setup(t, patient)
	b.server.Standing(Answer(200, d.Completed(theKey, d.Order)))
	if answer := b.placeBefore(t, time.Now().Add(-time.Millisecond)); answer.Verdict != broker.NotSent || answer.Reason != broker.Timeout {
		t.Errorf("too late: %s %s, want not sent", answer.Verdict, answer.Reason)
	}
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Millisecond))
	defer cancel()
	if answer := b.broker.Place(expired, b.request(t, theKey)); answer.Verdict != broker.NotSent {
		t.Errorf("with an expired context: %s %s, want not sent", answer.Verdict, answer.Reason)
	}
	late := broker.Query{Key: theKey, Account: d.Order.Account, SendBefore: time.Now().Add(-time.Millisecond)}
	if answer := b.broker.Lookup(t.Context(), late); answer.Verdict != broker.NotSent || answer.Reason != broker.Timeout {
		t.Errorf("lookup too late: %s %s, want not sent", answer.Verdict, answer.Reason)
	}
	if n := len(b.server.Requests()); n != 0 {
		t.Errorf("%d requests on the wire", n)
	}
	before := time.Now().Add(slow)
	b.server.Standing(Later(slow+quick, Answer(200, d.Completed(theKey, d.Order))))
	if answer := b.placeBefore(t, before); answer.Verdict != broker.Accepted {
		t.Errorf("sent in time, answered later: %s %s, want accepted", answer.Verdict, answer.Reason)
	}
}

// exerciseSecondAnswer: a broker that answers twice leaves its second answer on the
// connection; it must not be taken for the answer to the next order, or the next lookup.
func exerciseSecondAnswer(t *testing.T, d Dialect) {
	const next = theKey + "-next"
	t.Run("Place", func(t *testing.T) {
		t.Parallel()
		b := d.setup(t, patient)
		b.server.Script(Twice(Answer(422, d.Refusal)))
		b.server.Standing(Answer(201, d.Completed(next, d.Order)))
		b.place(t, theKey)
		if answer := b.place(t, next); answer.Verdict != broker.Accepted {
			t.Errorf("%s %s, want accepted: the second answer to another order was believed", answer.Verdict, answer.Code)
		}
	})
	t.Run("Lookup", func(t *testing.T) {
		t.Parallel()
		b := d.setup(t, patient)
		b.server.Script(Twice(Answer(404, d.NotFound(theKey))))
		b.server.Standing(Answer(200, d.Completed(next, d.Order)))
		b.lookup(t)
		if answer := b.broker.Lookup(t.Context(), broker.Query{Key: next, Account: d.Order.Account}); answer.Verdict == broker.Absent {
			t.Error("absent: the second answer to another lookup was believed")
		}
	})
}

func (b bundle) request(t testing.TB, key string) broker.Request {
	t.Helper()
	body, err := b.broker.Encode(key, b.Order)
	if err != nil {
		t.Fatalf("encode the order: %v", err)
	}
	return broker.Request{Key: key, Account: b.Order.Account, Body: body}
}

func (b bundle) placeBefore(t testing.TB, before time.Time) broker.Answer {
	t.Helper()
	request := b.request(t, theKey)
	request.SendBefore = before
	return b.broker.Place(t.Context(), request)
}
