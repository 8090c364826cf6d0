package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/auth"
	"holdfast/outbox"
)

// writeTimeout is how long a reader may take no byte.
const writeTimeout = 10 * time.Second

const writeLook = time.Second

// sendBuffer bounds what the kernel keeps for one reader, so that ten thousand slow ones
// cost no gigabytes and are known as slow in time.
const sendBuffer = 64 << 10

// errStreamOver ends a stream from this side.
var errStreamOver = errors.New("stream is over")

// stream is one open stream.
type stream struct {
	streams   *Streams
	principal auth.Principal
	filter    outbox.Filter
	out       sink
	sub       atomic.Pointer[outbox.Subscription]
	// wrote is when the client last took something, in Unix seconds.
	wrote atomic.Int64
	over  atomic.Bool
}

// sink is the way to one client. write returns once all is taken, or an error permanently.
// wake lets the stream be drained; it does not block.
type sink interface {
	write(messages [][]byte) error
	wake(st *stream, sub *outbox.Subscription)
	close()
}

func (st *stream) write(p ...[]byte) error {
	if err := st.out.write(p); err != nil {
		return err
	}
	st.wrote.Store(time.Now().Unix())
	return nil
}

func (st *stream) follow(sub *outbox.Subscription) {
	st.sub.Store(sub)
	if st.over.Load() {
		sub.Close(errStreamOver)
	}
}

// end closes the stream, once.
func (st *stream) end() {
	if st.over.Swap(true) {
		return
	}
	if sub := st.sub.Load(); sub != nil {
		sub.Close(errStreamOver)
	}
	st.out.close()
	st.streams.leave(st)
}

// drain writes what waits until nothing does. One goroutine at a time does so: the
// subscription wakes nobody before a Take has found nothing.
func (st *stream) drain(sub *outbox.Subscription) {
	for {
		messages, nudged, err := sub.Take()
		if err == nil && len(messages) == 0 && !nudged {
			return
		}
		if errors.Is(err, outbox.ErrBehind) {
			st.catchUp(sub)
			return
		}
		if err == nil {
			err = st.deliver(messages)
		}
		if err != nil {
			st.end()
			return
		}
	}
}

// catchUp goes on from the log: a reader that is slow, or a burst that is large, ends no
// stream.
func (st *stream) catchUp(behind *outbox.Subscription) {
	behind.Close(nil)
	if st.join(start{after: behind.After()}) != nil {
		st.end()
	}
}

// deliver writes events, or a comment where there are none.
func (st *stream) deliver(messages []*outbox.Message) error {
	if len(messages) == 0 {
		return st.write(comment)
	}
	wires := make([][]byte, len(messages))
	for i, m := range messages {
		wires[i] = m.Wire
	}
	return st.write(wires...)
}

// taken is a stream on a connection taken over from the server. While nothing happens it
// costs a goroutine that waits for the client to go, and no buffers; a goroutine that
// writes lives as long as there is something to write.
type taken struct {
	conn net.Conn
	// bare is what lies below TLS, nil where there is none.
	bare net.Conn
}

// hijack fails where the connection is shared (HTTP/2) or something around the writer
// does not let it go.
func hijack(w http.ResponseWriter) (*taken, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	t := &taken{conn: conn}
	if sealed, ok := conn.(*tls.Conn); ok {
		t.bare, conn = sealed.NetConn(), sealed.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// A hint; a kernel that does not take it only costs memory.
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	return t, nil
}

// serve writes the head of the answer, replays, and leaves the rest to whoever is woken.
// The answer ends with the connection, which every version of HTTP/1 understands.
func (t *taken) serve(st *stream, begin start, header http.Header) {
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\n")
	header.Set("Connection", "close")
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	// A bytes.Buffer takes everything.
	_ = header.Write(&head)
	head.WriteString("\r\n")
	err := st.write(head.Bytes(), preamble())
	if err == nil {
		err = st.join(begin)
	}
	if err != nil {
		st.end()
	}
}

func (t *taken) wake(st *stream, sub *outbox.Subscription) { go st.drain(sub) }

// watch waits for the client to go. A client has nothing to say on a stream; what it
// says is read and forgotten.
func (t *taken) watch(st *stream) {
	nothing := make([]byte, 64)
	for {
		if _, err := t.conn.Read(nothing); err != nil {
			st.end()
			return
		}
	}
}

// write gives up only on a reader that takes no byte for [writeTimeout]. It looks every
// [writeLook] whether some were taken: a write that ends by its deadline says how many it
// got rid of, not when.
func (t *taken) write(messages [][]byte) error {
	if t.bare != nil {
		return t.writeSealed(messages)
	}
	rest, progress := net.Buffers(messages), time.Now()
	for len(rest) > 0 {
		if err := t.conn.SetWriteDeadline(time.Now().Add(writeLook)); err != nil {
			return err
		}
		n, err := rest.WriteTo(t.conn)
		if n > 0 {
			progress = time.Now()
		}
		if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || time.Since(progress) >= writeTimeout-writeLook) {
			return err
		}
	}
	return nil
}

// writeSealed writes through TLS, which survives no write that ends by its deadline. So each
// piece has the whole time; and where one fails, nobody is there to be told goodbye, which
// TLS would wait five more seconds for.
func (t *taken) writeSealed(messages [][]byte) error {
	return inPieces(messages, func(piece []byte) error {
		err := t.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err == nil {
			_, err = t.conn.Write(piece)
		}
		if err != nil {
			_ = t.bare.Close()
		}
		return err
	})
}

// pieceMax is what one deadline is for, where bytes cannot be counted as they go: a reader
// that takes less than this in [writeTimeout] counts as one that takes nothing.
const pieceMax = 4 << 10

// inPieces gathers small messages and cuts large ones.
func inPieces(messages [][]byte, write func([]byte) error) error {
	for rest := bytes.Join(messages, nil); len(rest) > 0; {
		n := min(len(rest), pieceMax)
		if err := write(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (t *taken) close() { t.conn.Close() }

// direct is a stream in its handler: over HTTP/2, or where no connection can be had.
type direct struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	woken chan *outbox.Subscription
	done  chan struct{}

	// The writer is the handler's: nobody else may touch it once that has returned.
	mu       sync.Mutex
	returned bool
}

func newDirect(w http.ResponseWriter) *direct {
	return &direct{
		w: w, rc: http.NewResponseController(w),
		woken: make(chan *outbox.Subscription, 1), done: make(chan struct{}),
	}
}

func (d *direct) serve(ctx context.Context, st *stream, begin start) {
	defer d.leave()
	defer st.end()
	// The server's own deadlines are for requests, not for streams; where one cannot be
	// lifted the client resumes.
	_ = d.rc.SetReadDeadline(time.Time{})
	if st.write(preamble()) != nil || st.join(begin) != nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.done:
			return
		case sub := <-d.woken:
			st.drain(sub)
		}
	}
}

// wake finds the channel empty: nobody is woken twice without a Take that found nothing.
func (d *direct) wake(_ *stream, sub *outbox.Subscription) { d.woken <- sub }

func (d *direct) write(messages [][]byte) error {
	err := inPieces(messages, func(piece []byte) error {
		if err := d.allow(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		_, err := d.w.Write(piece)
		return err
	})
	if err != nil {
		return err
	}
	if err := d.allow(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if err := d.rc.Flush(); err != nil {
		return err
	}
	// HTTP/2 ends a stream at its deadline, writing or not.
	return d.allow(time.Time{})
}

// allow sets the deadline of what is written next, where there can be one.
func (d *direct) allow(until time.Time) error {
	if err := d.rc.SetWriteDeadline(until); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// close ends a write in progress, too.
func (d *direct) close() {
	close(d.done)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.returned {
		_ = d.rc.SetWriteDeadline(time.Now())
	}
}

// leave waits for a close in progress.
func (d *direct) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.returned = true
}
