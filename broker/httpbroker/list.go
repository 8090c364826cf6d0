package httpbroker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"holdfast/broker"
	"holdfast/broker/wire"
)

var _ broker.Lister = (*Client)(nil)

// List implements [broker.Lister]. A page of more than [broker.MaxBody] bytes is an error:
// the broker must make its pages shorter.
func (c *Client) List(ctx context.Context, window broker.Window) (broker.Page, error) {
	query := url.Values{"since": {stamp(window.Since)}, "until": {stamp(window.Until)}}
	if window.Cursor != "" {
		query.Set("cursor", window.Cursor)
	}
	// A page does not name its window: its connection must not carry another answer.
	reply := c.wire.GetFresh(ctx, "/v1/orders?"+query.Encode(), time.Time{})
	switch {
	case reply.Status == http.StatusNotFound, reply.Status == http.StatusMethodNotAllowed, reply.Status == http.StatusNotImplemented:
		return broker.Page{}, fmt.Errorf("%w: it answered %d", broker.ErrCannotList, reply.Status)
	case reply.Status != http.StatusOK || reply.Fault != "":
		return broker.Page{}, fmt.Errorf("list orders: status %d: %s", reply.Status, reply.Answer().Reason)
	}
	return readPage(reply.Body)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// maxCursor is the longest cursor that is sent back, as part of a URL.
const maxCursor = 4 << 10

func readPage(body []byte) (broker.Page, error) {
	var orders, next jsontext.Value
	if err := wire.Object(body, map[string]*jsontext.Value{"orders": &orders, "next_cursor": &next}); err != nil {
		return broker.Page{}, fmt.Errorf("read page: %w", err)
	}
	elements, err := wire.Array(orders)
	if err != nil {
		return broker.Page{}, fmt.Errorf("read page: orders: %w", err)
	}
	page := broker.Page{Orders: make([]broker.ListedOrder, len(elements))}
	for i, element := range elements {
		if page.Orders[i], err = ReadListed(element); err != nil {
			return broker.Page{}, fmt.Errorf("read page: order %d: %w", i+1, err)
		}
	}
	cursor, err := wire.Text(next)
	switch {
	case err != nil:
		return broker.Page{}, fmt.Errorf("read page: next_cursor: %w", err)
	case cursor != nil && len(*cursor) > maxCursor:
		return broker.Page{}, fmt.Errorf("read page: next_cursor has more than %d bytes", maxCursor)
	case cursor != nil:
		page.NextCursor = *cursor
	}
	return page, nil
}

// ourKeys is how every broker key of every Holdfast begins.
const ourKeys = "hf"

// ReadListed reads one order of a list: a JSON object in the form of an answer, with
// created_at. Of an order that somebody else placed only the key is read, whatever the rest
// looks like.
func ReadListed(value []byte) (broker.ListedOrder, error) {
	var name, account, createdAt jsontext.Value
	fields := map[string]*jsontext.Value{"client_order_id": &name, "account": &account, "created_at": &createdAt}
	if err := wire.Object(value, fields); err != nil {
		return broker.ListedOrder{}, fmt.Errorf("read order: %w", err)
	}
	created, err := readTime(createdAt)
	if err != nil {
		return broker.ListedOrder{}, fmt.Errorf("read created_at: %w", err)
	}
	if key, _ := wire.Text(name); key == nil || !strings.HasPrefix(*key, ourKeys) {
		return broker.ListedOrder{CreatedAt: created}, nil
	}
	read, err := readOrder(value)
	if err != nil {
		return broker.ListedOrder{}, err
	}
	verdict, _ := read.verdict()
	return broker.ListedOrder{
		OrderID: read.id, Key: read.key, Account: text(account), Status: verdict, CreatedAt: created,
		Cost: read.cost, FilledQuantity: read.filled, Echo: read.echo,
	}, nil
}

func readTime(value jsontext.Value) (time.Time, error) {
	text, err := wire.Text(value)
	if err != nil {
		return time.Time{}, err
	}
	if text == nil {
		return time.Time{}, errors.New("is missing")
	}
	return time.Parse(time.RFC3339, *text)
}
