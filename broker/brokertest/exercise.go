package brokertest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"holdfast/broker"
)

// Exercise checks an adapter against every rule of what an answer may be taken to
// prove, over a real wire. It opens loopback ports only and takes some seconds, most of
// them waiting for timeouts in parallel.
func Exercise(t *testing.T, d Dialect) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(*testing.T, Dialect)
	}{
		{"Encode", exerciseEncode},
		{"FirstCall", exerciseFirstCall},
		{"Lookup", exerciseLookup},
		{"OneRequest", exerciseOneRequest},
		{"CutAnywhere", exerciseCutAnywhere},
		{"NotSent", exerciseNotSent},
		{"SendBefore", exerciseSendBefore},
		{"SecondAnswer", exerciseSecondAnswer},
		{"Deadline", exerciseDeadline},
		{"RedirectIsNotFollowed", exerciseRedirect},
		{"OtherQuantity", exerciseOtherQuantity},
		{"List", exerciseList},
		{"Memory", exerciseMemory},
		{"Promises", func(t *testing.T, d Dialect) { promisesOfBook(t, d) }},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, d)
		})
	}
}

func exerciseEncode(t *testing.T, d Dialect) {
	b := d.setup(t, patient)
	first, err := b.broker.Encode(theKey, d.Order)
	second, again := b.broker.Encode(theKey, d.Order)
	if err != nil || again != nil || len(first) == 0 || !bytes.Equal(first, second) {
		t.Fatalf("equal orders must give equal bytes: %q, %v and %q, %v", first, err, second, again)
	}
	b.server.Standing(Answer(200, d.Completed(theKey, d.Order)))
	b.place(t, theKey)
	request := b.server.Await(t, 1)[0]
	if !bytes.Equal(request.Body, first) {
		t.Errorf("Place sent %q, not the bytes of Encode %q", request.Body, first)
	}
	if key, place := d.Read(request); key != theKey || !place {
		t.Errorf("the place carries the key %q, want %q", key, theKey)
	}
	b.lookup(t)
	if key, place := d.Read(b.server.Await(t, 2)[1]); key != theKey || place {
		t.Errorf("the lookup carries the key %q, want %q", key, theKey)
	}
}

// exerciseOneRequest: whatever happens to the connection, the order goes out once.
func exerciseOneRequest(t *testing.T, d Dialect) {
	for name, act := range map[string]Act{
		"Close": Close(), "Reset": Reset(), "HalfAnAnswer": Raw("HTTP/1.1 200 OK\r\nCont"),
		"TemporaryRedirect": Redirect(307, "/", ""), "Unavailable": Answer(503, "", "Retry-After: 0"),
		"RequestTimeout": Raw(Head(408, 0, "Connection: close")), "TooEarly": Answer(425, ""),
	} {
		for _, reused := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "Fresh", true: "Reused"}[reused], func(t *testing.T) {
				t.Parallel()
				b := d.setup(t, patient)
				b.server.Standing(Answer(200, d.Completed(theKey, d.Order)))
				want := 1
				if reused {
					b.place(t, theKey)
					want = 2
				}
				b.server.Script(act)
				if answer := b.place(t, theKey); answer.Verdict == broker.Accepted {
					t.Errorf("accepted: the order went out again, or was believed without an answer")
				}
				if got := len(b.server.Requests()); got != want {
					t.Errorf("%d requests on the wire, want %d", got, want)
				}
			})
		}
	}
}

// exerciseCutAnywhere: no beginning of a confirmation confirms, wherever it ends.
func exerciseCutAnywhere(t *testing.T, d Dialect) {
	b := d.setup(t, patient)
	body := d.Completed(theKey, d.Order)
	whole := strings.TrimRight(body, " \r\n")
	for n := range len(whole) {
		b.server.Script(Raw(Head(200, -1, "Connection: close") + whole[:n]))
		if answer := b.place(t, theKey); answer.Verdict != broker.Uncertain {
			t.Fatalf("%s by a body cut to %q", answer.Verdict, whole[:n])
		}
	}
	b.server.Script(Answer(200, body))
	if answer := b.place(t, theKey); answer.Verdict != broker.Accepted {
		t.Fatalf("the whole body is not accepted either: %s %s", answer.Verdict, answer.Reason)
	}
}

func exerciseNotSent(t *testing.T, d Dialect) {
	b := d.setup(t, patient)
	b.server.Close()
	for name, answer := range map[string]broker.Answer{"place": b.place(t, theKey), "lookup": b.lookup(t)} {
		if answer.Verdict != broker.NotSent || answer.Reason != broker.ConnectionFailed || answer.Answered {
			t.Errorf("%s to a closed port: %s %s", name, answer.Verdict, answer.Reason)
		}
	}
}

// exerciseDeadline: one deadline over all of it, the adapter's own or the caller's, and
// an answer that comes drop by drop does not stretch it.
func exerciseDeadline(t *testing.T, d Dialect) {
	drip := Drip(200, d.Completed(theKey, d.Order), 100, 50*time.Millisecond)
	b := d.setup(t, quick)
	b.server.Standing(drip)
	if answer := b.place(t, theKey); answer.Reason != broker.Timeout {
		t.Errorf("an answer that drips for 5 s, with a timeout of %s: %s %s", quick, answer.Verdict, answer.Reason)
	}

	b = d.setup(t, time.Minute)
	b.server.Standing(Stall())
	ctx, cancel := context.WithTimeout(t.Context(), quick)
	defer cancel()
	if answer := b.broker.Lookup(ctx, broker.Query{Key: theKey, Account: b.Order.Account}); answer.Reason != broker.Timeout {
		t.Errorf("the caller's deadline: %s %s", answer.Verdict, answer.Reason)
	}
}

func exerciseRedirect(t *testing.T, d Dialect) {
	target := NewServer(t)
	target.Standing(Answer(200, d.Completed(theKey, d.Order)))
	b := d.setup(t, patient)
	for _, status := range []int{301, 302, 303, 307, 308} {
		b.server.Script(Redirect(status, target.URL()+"/", d.Completed(theKey, d.Order)), Redirect(status, target.URL()+"/", ""))
		for name, answer := range map[string]broker.Answer{"place": b.place(t, theKey), "lookup": b.lookup(t)} {
			if answer.Verdict != broker.Uncertain || answer.Reason != broker.Redirect {
				t.Errorf("%s answered with %d: %s %s", name, status, answer.Verdict, answer.Reason)
			}
		}
	}
	if n := len(target.Requests()); n != 0 {
		t.Errorf("%d requests followed a redirect", n)
	}
}

// exerciseOtherQuantity: what the broker says was ordered reaches the purchase, which
// compares it; the adapter must not drop it.
func exerciseOtherQuantity(t *testing.T, d Dialect) {
	other := d.Order
	other.Quantity.Decimal = other.Quantity.Decimal.Add(other.Quantity.Decimal)
	b := d.setup(t, patient)
	b.server.Script(Answer(200, d.Completed(theKey, other)), Answer(200, d.Completed(theKey, d.Order)))
	if answer := b.lookup(t); !answer.Echo.Contradicts(d.Order) {
		t.Errorf("another quantity is not passed on: %+v", answer.Echo)
	}
	if answer := b.lookup(t); answer.Echo.Contradicts(d.Order) {
		t.Errorf("the right quantity is reported as another: %+v", answer.Echo)
	}
}
