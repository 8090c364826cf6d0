package sandbox

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pageSize is how many orders a page of the list has.
const pageSize = 100

// page is the answer of GET /v1/orders.
type page struct {
	Orders     []ListedView `json:"orders"`
	NextCursor *string      `json:"next_cursor"`
}

// window is what a list asks for: created at since or later, and before until.
type window struct {
	since, until time.Time
	skip         int
}

// list answers GET /v1/orders.
func (s *Sandbox) list(w http.ResponseWriter, r *http.Request) {
	asked, err := readWindow(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	s.mu.Lock()
	act, _ := s.mode.list()
	orders := s.listed(asked)
	s.mu.Unlock()
	s.log.Debug("sandbox list", "orders", len(orders), "skip", asked.skip)
	s.respond(w, r, act, func(w http.ResponseWriter) { writeJSON(w, http.StatusOK, pageOf(orders, asked.skip)) })
}

func readWindow(query url.Values) (window, error) {
	since, err := time.Parse(time.RFC3339Nano, query.Get("since"))
	until, untilErr := time.Parse(time.RFC3339Nano, query.Get("until"))
	if err != nil || untilErr != nil {
		return window{}, errors.New("since and until must be RFC 3339 times")
	}
	read := window{since: since, until: until}
	if cursor := query.Get("cursor"); cursor != "" {
		if read.skip, err = strconv.Atoi(cursor); err != nil || read.skip < 0 {
			return window{}, errors.New("cursor is not one of this list")
		}
	}
	return read, nil
}

// listed returns the window's orders in the order they were booked.
func (s *Sandbox) listed(w window) []ListedView {
	var orders []ListedView
	for _, rec := range s.records {
		for _, o := range rec.listed() {
			if !o.CreatedAt.Before(w.since) && o.CreatedAt.Before(w.until) {
				orders = append(orders, o)
			}
		}
	}
	slices.SortFunc(orders, func(a, b ListedView) int {
		if byTime := a.CreatedAt.Compare(b.CreatedAt); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.OrderID, b.OrderID)
	})
	return orders
}

func pageOf(orders []ListedView, skip int) page {
	from := min(skip, len(orders))
	to := min(from+pageSize, len(orders))
	p := page{Orders: append([]ListedView{}, orders[from:to]...)}
	if to < len(orders) {
		next := strconv.Itoa(to)
		p.NextCursor = &next
	}
	return p
}

// list is the act of a list: an outage, or a gateway's answer if there is no list.
func (m Mode) list() (Response, bool) {
	if m.NoList {
		return gateway(), true
	}
	return m.outage()
}
