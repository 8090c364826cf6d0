package brokertest

import (
	"strings"
	"testing"
	"time"

	"holdfast/broker"
)

// exerciseList: a page is read whole or not at all. An adapter that is no [broker.Lister]
// has nothing to check.
func exerciseList(t *testing.T, d Dialect) {
	created := time.Date(2026, 3, 16, 18, 38, 1, 942_282_000, time.UTC)
	window := broker.Window{Since: created.Add(-time.Hour), Until: created.Add(time.Hour)}
	b := d.setup(t, patient)
	lister, ok := b.broker.(broker.Lister)
	if !ok {
		return
	}
	page := d.Page(created, d.Completed("hf-1", d.Order), d.Rejected("hf-2", d.Order), d.Processing("hf-3", d.Order),
		d.Strange("hf-4", d.Order), d.Completed("somebody-else", d.Order))
	b.server.Script(Answer(200, page), Answer(200, d.Page(created)))
	listed, err := lister.List(t.Context(), window)
	if err != nil || len(listed.Orders) != 5 || listed.NextCursor != "" {
		t.Fatalf("%+v, %v", listed, err)
	}
	for i, want := range []broker.Verdict{broker.Accepted, broker.Rejected, broker.Processing, broker.Uncertain} {
		order := listed.Orders[i]
		if order.Status != want || !order.CreatedAt.Equal(created) || order.Echo.Contradicts(d.Order) || order.Key == "" {
			t.Errorf("order %d is %+v, want %s", i+1, order, want)
		}
	}
	if empty, err := lister.List(t.Context(), window); err != nil || len(empty.Orders) != 0 {
		t.Errorf("an empty page: %+v, %v", empty, err)
	}
	t.Run("NotWhole", func(t *testing.T) { listNotWhole(t, d, window, page) })
}

// listNotWhole: what is no whole page is an error, never a shorter list.
func listNotWhole(t *testing.T, d Dialect, window broker.Window, page string) {
	acts := map[string]Act{
		"Empty": Answer(200, ""), "HTML": Answer(200, "<html>"), "Null": Answer(200, "null"), "Followed": Answer(200, page+"x"),
		"Created": Answer(201, page), "Redirect": Redirect(302, "/", page), "Unavailable": Answer(503, page), "Unauthorized": Answer(401, page),
		"NotFound": Answer(404, page), "Cut": Cut(200, page), "Reset": ResetBody(200, page), "Close": Close(), "Silence": Stall(),
		"Compressed": Answer(200, page, "Content-Encoding: gzip"), "Oversized": Answer(200, page+strings.Repeat(" ", broker.MaxBody)),
		"NegativeAmount": Answer(200, strings.Replace(page, `"`+d.Order.Quantity.Decimal.String()+`"`, `"-1"`, 1)),
	}
	for name, act := range acts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := d.setup(t, row{name: name, reason: map[string]broker.Reason{"Silence": broker.Timeout}[name]}.timeout())
			b.server.Script(act)
			if listed, err := b.broker.(broker.Lister).List(t.Context(), window); err == nil {
				t.Errorf("read %d orders", len(listed.Orders))
			}
		})
	}
	b := d.setup(t, patient)
	for n := 0; n < len(strings.TrimRight(page, " \n")); n += 7 {
		b.server.Script(Raw(Head(200, -1, "Connection: close") + page[:n]))
		if listed, err := b.broker.(broker.Lister).List(t.Context(), window); err == nil {
			t.Fatalf("read %d orders of a page cut to %d bytes", len(listed.Orders), n)
		}
	}
}
