package httpbroker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
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
	reply := c.wire.Get(ctx, "/v1/orders?"+query.Encode())
	switch {
	case reply.Status == http.StatusNotFound, reply.Status == http.StatusMethodNotAllowed, reply.Status == http.StatusNotImplemented:
		return broker.Page{}, fmt.Errorf("%w: it answered %d", broker.ErrCannotList, reply.Status)
	case reply.Status != http.StatusOK || reply.Fault != "":
		return broker.Page{}, fmt.Errorf("list orders: status %d: %s", reply.Status, reply.Answer().Reason)
	}
	return readPage(reply.Body)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func readPage(body []byte) (broker.Page, error) {
	var raw struct {
		Orders     *[]jsontext.Value `json:"orders"`
		NextCursor jsontext.Value    `json:"next_cursor"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return broker.Page{}, fmt.Errorf("read page: %w", err)
	}
	if raw.Orders == nil {
		return broker.Page{}, errors.New("read page: orders is missing")
	}
	page := broker.Page{Orders: make([]broker.ListedOrder, len(*raw.Orders))}
	for i, value := range *raw.Orders {
		order, err := ReadListed(value)
		if err != nil {
			return broker.Page{}, fmt.Errorf("read page: order %d: %w", i+1, err)
		}
		page.Orders[i] = order
	}
	cursor, err := wire.Text(raw.NextCursor)
	if err != nil {
		return broker.Page{}, fmt.Errorf("read page: next_cursor: %w", err)
	}
	if cursor != nil {
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
	var raw struct {
		Key       jsontext.Value `json:"client_order_id"`
		Account   jsontext.Value `json:"account"`
		CreatedAt jsontext.Value `json:"created_at"`
	}
	if err := json.Unmarshal(value, &raw); err != nil {
		return broker.ListedOrder{}, fmt.Errorf("read order: %w", err)
	}
	created, err := readTime(raw.CreatedAt)
	if err != nil {
		return broker.ListedOrder{}, fmt.Errorf("read created_at: %w", err)
	}
	if key, _ := wire.Text(raw.Key); key == nil || !strings.HasPrefix(*key, ourKeys) {
		return broker.ListedOrder{CreatedAt: created}, nil
	}
	read, err := readOrder(value)
	if err != nil {
		return broker.ListedOrder{}, err
	}
	listed := broker.ListedOrder{
		OrderID: read.id, Key: read.key, Status: listedStatus(read), CreatedAt: created,
		Cost: read.cost, FilledQuantity: read.filled, Echo: read.echo,
	}
	if account, err := wire.Text(raw.Account); err == nil && account != nil {
		listed.Account = *account
	}
	return listed, nil
}

func listedStatus(read order) broker.Verdict {
	answer := broker.Answer{Verdict: broker.Uncertain}
	judge(&answer, read)
	return answer.Verdict
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
