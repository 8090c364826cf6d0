package alpaca

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"holdfast/broker"
	"holdfast/broker/wire"
)

const (
	// maxPage is the most orders that Alpaca puts on a page. A page must also fit into
	// [broker.MaxBody]: an order has some 1,100 bytes, so 500 fit.
	maxPage = 500
	// overlap is how far a page reaches back into the one before it. Alpaca has no cursor,
	// only a time, and orders of the same moment may be on both sides of a page's end.
	overlap = time.Millisecond
)

// List implements [broker.Lister]. Sales are left out. Orders may appear on two pages; the
// cursor is the submission time of the last one.
func (c *Client) List(ctx context.Context, window broker.Window) (broker.Page, error) {
	from := window.Since
	if window.Cursor != "" {
		last, err := time.Parse(time.RFC3339Nano, window.Cursor)
		if err != nil {
			return broker.Page{}, fmt.Errorf("list orders: cursor: %w", err)
		}
		from = last
	}
	query := url.Values{
		"status": {"all"}, "direction": {"asc"}, "nested": {"false"}, "limit": {strconv.Itoa(maxPage)},
		"after": {from.Add(-overlap).UTC().Format(time.RFC3339Nano)}, // exclusive
		"until": {window.Until.UTC().Format(time.RFC3339Nano)},
	}
	reply := c.wire.GetFresh(ctx, "/v2/orders?"+query.Encode(), time.Time{})
	if reply.Status != http.StatusOK || reply.Fault != "" {
		return broker.Page{}, fmt.Errorf("list orders: status %d: %s", reply.Status, reply.Answer().Reason)
	}
	return readPage(reply.Body, from)
}

// readPage reads a page from a moment on; a full one is not the last.
func readPage(body []byte, from time.Time) (broker.Page, error) {
	elements, err := wire.Array(body)
	if err != nil {
		return broker.Page{}, fmt.Errorf("read page: %w", err)
	}
	var page broker.Page
	var last time.Time
	for i, element := range elements {
		listed, submitted, err := readListed(element)
		if err != nil {
			return broker.Page{}, fmt.Errorf("read page: order %d: %w", i+1, err)
		}
		last = slices.MaxFunc([]time.Time{last, submitted}, time.Time.Compare)
		if listed != nil {
			page.Orders = append(page.Orders, *listed)
		}
	}
	if len(elements) >= maxPage {
		if !last.After(from) {
			return broker.Page{}, fmt.Errorf("read page: more than %d orders within %s", maxPage, overlap)
		}
		page.NextCursor = last.UTC().Format(time.RFC3339Nano)
	}
	return page, nil
}

// ourKeys is how every broker key of every Holdfast begins.
const ourKeys = "hf"

// readListed reads one order of a list, nil for a sale. Of an order that somebody else
// placed only the times are read, whatever the rest looks like.
func readListed(value []byte) (*broker.ListedOrder, time.Time, error) {
	var name, side, createdAt, submittedAt jsontext.Value
	fields := map[string]*jsontext.Value{
		"client_order_id": &name, "side": &side, "created_at": &createdAt, "submitted_at": &submittedAt,
	}
	if err := wire.Object(value, fields); err != nil {
		return nil, time.Time{}, err
	}
	created, err := readTime(createdAt)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read created_at: %w", err)
	}
	submitted, err := readTime(submittedAt)
	if err != nil {
		submitted = created // as Alpaca does for an order that was not yet submitted
	}
	if wire.Scalar(side) == "sell" {
		return nil, submitted, nil
	}
	if !strings.HasPrefix(wire.Scalar(name), ourKeys) {
		return &broker.ListedOrder{CreatedAt: created}, submitted, nil
	}
	read, err := readOrder(value)
	if err != nil {
		return nil, time.Time{}, err
	}
	return listed(read, created), submitted, nil
}

func listed(read order, created time.Time) *broker.ListedOrder {
	answer := broker.Answer{Verdict: broker.Uncertain}
	judge(&answer, read)
	return &broker.ListedOrder{
		OrderID: read.id, Key: read.key, Status: answer.Verdict, CreatedAt: created,
		Cost: answer.Cost, FilledQuantity: answer.FilledQuantity, Echo: read.echo,
	}
}

func readTime(value jsontext.Value) (time.Time, error) {
	text, err := wire.Text(value)
	if err != nil {
		return time.Time{}, err
	}
	if text == nil {
		return time.Time{}, errors.New("is missing")
	}
	return time.Parse(time.RFC3339Nano, *text)
}
