package sandbox

import (
	"errors"
	"net/http"
	"time"
)

// Mode is how the whole broker behaves until it is changed.
type Mode struct {
	// Outage is empty, "drop", "stall", "error" (503) or "gateway" (a gateway's 404):
	// every call meets it, and nothing is booked.
	Outage string `json:"outage"`
	// Delay comes before every answer.
	Delay Duration `json:"delay"`
	// Lag is how long, and LagLookups for how many lookups, a new order is not found.
	Lag        Duration `json:"lag"`
	LagLookups int      `json:"lag_lookups"`
	// NoLookup and NoList: the broker has no such route; a gateway answers 404.
	NoLookup bool `json:"no_lookup"`
	NoList   bool `json:"no_list"`
	// Form is "bom" or "sparse": how lookups are answered, see [FormMark], [FormSparse].
	Form string `json:"form"`
	// Corrupt, if it is "quantity", makes lookups name another quantity; "key": another key.
	Corrupt string `json:"lie"`
	// StoreErrors: a place that was answered with an error gets the same error permanently.
	StoreErrors bool `json:"store_errors"`
	// ValidateFirst: a place is refused as if the market were closed before the broker
	// looks whether it has the order.
	ValidateFirst bool `json:"validate_first"`
}

func (m Mode) check() error {
	if m.Delay < 0 || m.Delay.std() > maxDelay || m.Lag < 0 || m.Lag.std() > 24*time.Hour {
		return errors.New("delay must be 0 to 1h and lag 0 to 24h")
	}
	if m.Corrupt != "" && m.Corrupt != LieKey && m.Corrupt != LieQuantity {
		return errors.New("lie must be key or quantity")
	}
	switch m.Outage {
	case "", "drop", "stall", "error", "gateway":
		return m.checkForm()
	}
	return errors.New("outage must be drop, stall, error or gateway")
}

func (m Mode) checkForm() error {
	if m.Form != "" && m.Form != FormMark && m.Form != FormSparse {
		return errors.New("form must be bom or sparse")
	}
	if m.LagLookups < 0 {
		return errors.New("lag_lookups must not be negative")
	}
	return nil
}

// lookup is the act of a lookup: what the script has, if it has one, else the mode's.
func (m Mode) lookup(scripted Response, ok bool) Response {
	if !ok && m.NoLookup {
		return gateway()
	}
	return scripted
}

// gateway is the answer of something in front of the broker.
func gateway() Response {
	no, page := false, "<!doctype html><title>404 Not Found</title>"
	return Response{Book: &no, Status: http.StatusNotFound, Body: &page, Header: map[string]string{"Content-Type": "text/html"}}
}

func (m Mode) outage() (Response, bool) {
	no := false
	switch m.Outage {
	case "drop":
		return Response{Book: &no, Fault: FaultDrop}, true
	case "stall":
		return Response{Book: &no, Fault: FaultStall}, true
	case "gateway":
		return gateway(), true
	case "error":
		act := answer(http.StatusServiceUnavailable, "outage", "the sandbox is set to be down")
		return act, true
	}
	return Response{}, false
}

// respond changes the answer to a lookup as the mode wants it.
func (m Mode) respond(v *View) *View {
	if m.Form != "" {
		v.form = m.Form
	}
	switch m.Corrupt {
	case LieKey:
		v.ClientOrderID = "not-" + v.ClientOrderID
	case LieQuantity:
		wrong := "424242"
		v.Quantity = &wrong
	}
	return v
}

func (s *Sandbox) modeDelay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode.Delay.std()
}

// scripted takes the next act that fits call off the script.
func (s *Sandbox) scripted(call string) (Response, bool) {
	for i := range s.script {
		act := &s.script[i]
		if act.Call != "" && act.Call != call {
			continue
		}
		taken := *act
		if act.Times--; act.Times < 1 {
			s.script = append(s.script[:i:i], s.script[i+1:]...)
		}
		return taken, true
	}
	return Response{}, false
}
