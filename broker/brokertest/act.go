package brokertest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Act answers one request, or does worse.
type Act func(*Exchange)

// Exchange is one request and the connection it came on.
type Exchange struct {
	Request Request

	conn   net.Conn
	reader *bufio.Reader
	done   <-chan struct{}
	ended  bool
}

// Write sends raw bytes.
func (e *Exchange) Write(raw string) { _, _ = e.conn.Write([]byte(raw)) }

// Close closes the connection in good order.
func (e *Exchange) Close() {
	e.ended = true
	_ = e.conn.Close()
}

// Reset closes the connection with a TCP reset.
func (e *Exchange) Reset() {
	e.ended = true
	if tcp, ok := e.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = e.conn.Close()
}

// maxStall ends a silence, so that an adapter without a deadline fails its test and
// does not hang it.
const maxStall = 10 * time.Second

// Hang says nothing more until the client or the server closes, or ten seconds are over.
func (e *Exchange) Hang() {
	e.ended = true
	_ = e.conn.SetReadDeadline(time.Now().Add(maxStall))
	_, _ = e.reader.ReadByte()
}

// Wait pauses, but not beyond the server's end; false says that the server ended.
func (e *Exchange) Wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.done:
		return false
	}
}

// Close reads the request and closes the connection.
func Close() Act { return (*Exchange).Close }

// Reset reads the request and resets the connection.
func Reset() Act { return (*Exchange).Reset }

// Stall reads the request and answers nothing (for ten seconds; then it closes).
func Stall() Act { return (*Exchange).Hang }

// Raw sends raw as it is and closes: anything that is no HTTP, too.
func Raw(raw string) Act {
	return func(e *Exchange) {
		e.Write(raw)
		e.Close()
	}
}

// RawThenStall sends raw as it is and then nothing more.
func RawThenStall(raw string) Act {
	return func(e *Exchange) {
		e.Write(raw)
		e.Hang()
	}
}

// RawThenReset sends raw as it is, gives it time to arrive, and resets.
func RawThenReset(raw string) Act {
	return func(e *Exchange) {
		e.Write(raw)
		e.Wait(50 * time.Millisecond) // a reset overtakes what it follows at once
		e.Reset()
	}
}

// Answer sends a whole answer and keeps the connection. Headers are "Name: value".
func Answer(status int, body string, headers ...string) Act {
	return func(e *Exchange) { e.Write(Head(status, len(body), headers...) + body) }
}

// Twice acts and, a moment later, acts again on the same connection without a request.
func Twice(act Act) Act {
	return func(e *Exchange) {
		act(e)
		if e.ended || !e.Wait(20*time.Millisecond) {
			return
		}
		act(e)
	}
}

// Cut announces the whole body, sends part of it and closes.
func Cut(status int, body string, headers ...string) Act {
	return Raw(Head(status, len(body)+100, headers...) + body)
}

// StallBody announces a longer body, sends body and then nothing more.
func StallBody(status int, body string, headers ...string) Act {
	return RawThenStall(Head(status, len(body)+100, headers...) + body)
}

// ResetBody announces a longer body, sends body and resets.
func ResetBody(status int, body string, headers ...string) Act {
	return RawThenReset(Head(status, len(body)+100, headers...) + body)
}

// Drip sends a whole answer in n pieces with pause between them.
func Drip(status int, body string, n int, pause time.Duration, headers ...string) Act {
	return func(e *Exchange) {
		rest := Head(status, len(body), headers...) + body
		size := len(rest)/n + 1
		for len(rest) > size {
			e.Write(rest[:size])
			if rest = rest[size:]; !e.Wait(pause) {
				e.Close()
				return
			}
		}
		e.Write(rest)
	}
}

// Later waits before it acts.
func Later(d time.Duration, act Act) Act {
	return func(e *Exchange) {
		if !e.Wait(d) {
			e.Close()
			return
		}
		act(e)
	}
}

// Interim sends interim answers (100, 103) before it acts.
func Interim(act Act, statuses ...int) Act {
	return func(e *Exchange) {
		for _, status := range statuses {
			e.Write(fmt.Sprintf("HTTP/1.1 %d %s\r\n\r\n", status, http.StatusText(status)))
		}
		act(e)
	}
}

// Redirect points to another place, with a body that would confirm if it were believed.
func Redirect(status int, to, body string) Act {
	return Answer(status, body, "Location: "+to)
}

// Head is the status line and header of an answer whose body has length bytes; none is
// announced where length is negative.
func Head(status, length int, headers ...string) string {
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, header := range headers {
		head.WriteString(header + "\r\n")
	}
	if length >= 0 {
		fmt.Fprintf(&head, "Content-Length: %d\r\n", length)
	}
	head.WriteString("Content-Type: application/json\r\n\r\n")
	return head.String()
}
