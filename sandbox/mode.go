package sandbox

import (
	"errors"
	"net/http"
	"time"
)

// Mode is how the whole broker behaves until it is told otherwise.
type Mode struct {
	// Outage is empty, "drop", "stall" or "error" (503): every call meets it, and
	// nothing is booked.
	Outage string `json:"outage"`
	// Delay comes before every answer.
	Delay Duration `json:"delay"`
	// Lag is how long no lookup sees a new order.
	Lag Duration `json:"lag"`
	// Lie, where it is "quantity", makes lookups name another quantity; "key": another key.
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
	case "", "drop", "stall", "error":
		return nil
	}
	return errors.New("outage must be drop, stall or error")
}

func (m Mode) outage() (Response, bool) {
	no := false
	switch m.Outage {
	case "drop":
		return Response{Book: &no, Fault: FaultDrop}, true
	case "stall":
		return Response{Book: &no, Fault: FaultStall}, true
	case "error":
		act := answer(http.StatusServiceUnavailable, "outage", "the sandbox was told to be down")
		return act, true
	}
	return Response{}, false
}

// bend lies about an order as the mode wants it.
func (m Mode) respond(v *View) *View {
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
