package httpserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// bodyTimeout is how long a client may take to send a request's body, counted from
	// the end of its header.
	bodyTimeout = 10 * time.Second
	// lingerTimeout is how long a body that nobody read is read on after the response: a
	// client that is still sending when its connection closes may not see the response.
	lingerTimeout = time.Second
	// writeTimeout is how long a client may take to receive a response.
	writeTimeout = 30 * time.Second
)

// exchange is one request and its response. It is the handler's http.ResponseWriter.
type exchange struct {
	http.ResponseWriter
	requests *requests
	control  *http.ResponseController
	http1    bool
	// body is nil if the request has none.
	body     *body
	began    bool
	hijacked bool
}

func newExchange(rs *requests, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, requests: rs, control: http.NewResponseController(w), http1: r.ProtoMajor == 1}
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		x.body = &body{ReadCloser: r.Body, exchange: x}
		r.Body = x.body
		// An error means that there is no connection to set it on (a test's recorder).
		_ = x.control.SetReadDeadline(rs.bodyDeadline())
	}
	return x
}

// Unwrap is how http.ResponseController finds what is below.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Hijack hands the connection over, without any deadline.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := x.control.Hijack()
	x.hijacked = x.hijacked || err == nil
	return conn, buffered, err
}

func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK {
		x.begin()
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(p []byte) (int, error) {
	x.begin()
	return x.ResponseWriter.Write(p)
}

// begin runs before the response's first byte. While the body has not been read to its
// end, net/http would wait for it before it sends the response, unless that says that the
// connection closes.
func (x *exchange) begin() {
	if x.began {
		return
	}
	x.began = true
	_ = x.control.SetWriteDeadline(x.requests.writeDeadline())
	if x.http1 && x.body != nil && !x.body.ended.Load() {
		x.Header().Set("Connection", "close")
	}
}

// finish runs when the handler has returned.
func (x *exchange) finish() {
	if x.hijacked || x.body == nil || x.body.ended.Load() {
		return
	}
	_ = x.control.SetReadDeadline(time.Now().Add(lingerTimeout))
}

// hurry shortens the deadlines at a shutdown, from outside of the handler.
func (x *exchange) hurry() {
	_ = x.control.SetWriteDeadline(x.requests.writeDeadline())
	if x.body == nil || x.body.ended.Load() {
		return
	}
	_ = x.control.SetReadDeadline(x.requests.bodyDeadline())
	if x.body.ended.Load() { // it ended meanwhile, and its deadline is lifted again
		_ = x.control.SetReadDeadline(time.Time{})
	}
}

// body lifts its deadline once it has been read: from then on a read on the connection
// only waits for the client to go away.
type body struct {
	io.ReadCloser
	exchange *exchange
	ended    atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && !b.ended.Swap(true) {
		_ = b.exchange.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
