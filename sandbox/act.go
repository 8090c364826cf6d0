package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Duration is a time.Duration that JSON writes as Go does ("1.5s").
type Duration time.Duration

func (d Duration) std() time.Duration { return time.Duration(d) }

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.std().String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Fault is a way not to answer.
type Fault string

const (
	// FaultDrop closes the connection without an answer.
	FaultDrop Fault = "drop"
	// FaultReset closes it with a TCP reset.
	FaultReset Fault = "reset"
	// FaultStall answers nothing until the caller gives up or the sandbox closes.
	FaultStall Fault = "stall"
	// FaultCut sends half of the answer.
	FaultCut Fault = "cut"
)

// LieKey makes a place answer name another key; LieQuantity makes lookups and answers
// name another quantity.
const (
	LieKey      = "key"
	LieQuantity = "quantity"
)

// maxDelay bounds what a script may ask for.
const maxDelay = time.Hour

// Response is one answer. The zero Response is the plain one: a place books and confirms, a
// lookup answers with what is booked.
type Response struct {
	// Call is "place" or "lookup"; empty fits both. Scripts only.
	Call string `json:"call,omitempty"`
	// Times is how many calls the act answers, 1 if it is 0. Scripts only.
	Times int `json:"times,omitempty"`

	// Book says whether a place books the order; if it is nil, an act with a
	// status of 300 or more does not book and every other does.
	Book *bool `json:"book,omitempty"`
	// Delay comes before the answer, after the booking.
	Delay Duration `json:"delay,omitempty"`
	Fault Fault    `json:"fault,omitempty"`
	// Status and Body replace the plain answer; a Body alone comes with 200.
	Status  int               `json:"status,omitempty"`
	Body    *string           `json:"body,omitempty"`
	Header  map[string]string `json:"header,omitempty"`
	Corrupt string            `json:"lie,omitempty"`
}

func (a Response) books() bool {
	if a.Book != nil {
		return *a.Book
	}
	return a.Status < 300
}

func (a Response) check() error {
	switch {
	case a.Call != "" && a.Call != "place" && a.Call != "lookup":
		return errors.New("call must be place or lookup")
	case a.Times < 0 || a.Times > 1_000_000:
		return errors.New("times must be 1 to 1000000")
	case a.Delay < 0 || a.Delay.std() > maxDelay:
		return errors.New("delay must be 0 to 1h")
	case a.Status != 0 && (a.Status < 200 || a.Status > 999):
		return errors.New("status must be 200 to 999")
	case a.Corrupt != "" && a.Corrupt != LieKey:
		return errors.New("lie must be key")
	}
	switch a.Fault {
	case "", FaultDrop, FaultReset, FaultStall, FaultCut:
		return nil
	}
	return errors.New("fault must be drop, reset, stall or cut")
}

// answer is an act that refuses with a code.
func answer(status int, code, message string) Response {
	text := fmt.Sprintf(`{"code":%q,"message":%q}`, code, message)
	return Response{Status: status, Body: &text}
}

// respond carries the act out; plain writes the plain answer.
func (s *Sandbox) respond(w http.ResponseWriter, r *http.Request, act Response, plain func(http.ResponseWriter)) {
	if delay := act.Delay.std() + s.modeDelay(); delay > 0 && !s.wait(r, delay) {
		panic(http.ErrAbortHandler)
	}
	for name, value := range act.Header {
		w.Header().Set(name, value)
	}
	switch act.Fault {
	case FaultStall:
		s.wait(r, maxDelay)
		panic(http.ErrAbortHandler)
	case FaultDrop:
		panic(http.ErrAbortHandler)
	case FaultReset:
		reset(w)
	case FaultCut:
		cut(w, act, plain)
	default:
		write(w, act, plain)
	}
}

// wait is cut short by the caller's hanging up and by the sandbox's end.
func (s *Sandbox) wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.done:
	}
	return false
}

func write(w http.ResponseWriter, act Response, plain func(http.ResponseWriter)) {
	if act.Status == 0 && act.Body == nil {
		plain(w)
		return
	}
	status := act.Status
	if status == 0 {
		status = http.StatusOK
	}
	if act.Body == nil {
		refuse(w, status, "sandbox_"+strconv.Itoa(status), "made by the sandbox")
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(*act.Body))
}

func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// cut announces the whole answer and sends half of it.
func cut(w http.ResponseWriter, act Response, plain func(http.ResponseWriter)) {
	whole := newBuffer(w.Header())
	write(whole, act, plain)
	w.Header().Set("Content-Length", strconv.Itoa(len(whole.body)+1))
	w.WriteHeader(whole.status)
	_, _ = w.Write(whole.body[:len(whole.body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// buffer keeps an answer that is to be cut.
type buffer struct {
	header http.Header
	status int
	body   []byte
}

func newBuffer(header http.Header) *buffer { return &buffer{header: header, status: http.StatusOK} }

func (b *buffer) Header() http.Header    { return b.header }
func (b *buffer) WriteHeader(status int) { b.status = status }
func (b *buffer) Write(p []byte) (int, error) {
	b.body = append(b.body, p...)
	return len(p), nil
}
