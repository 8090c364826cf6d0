package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/account"
	"holdfast/api"
	"holdfast/auth"
	"holdfast/broker/httpbroker"
	"holdfast/internal/testkit/pgtest"
	"holdfast/outbox"
	"holdfast/purchase"
)

// streamPatience bounds every wait of the stream tests.
const streamPatience = 30 * time.Second

// streaming is a process that serves streams, on a database of its own.
type streaming struct {
	pool    *pgxpool.Pool
	keys    *auth.Store
	box     *outbox.Outbox
	streams *api.Streams
	server  *httptest.Server
	// client and operator are keys' secrets; client's account is "acct".
	client, clientID, operator string
}

func newStreaming(t testing.TB, most int) *streaming {
	t.Helper()
	pool := pgtest.New(t)
	s := &streaming{pool: pool, keys: auth.New(auth.Config{Pool: pool})}
	accounts := account.New(pool)
	for _, id := range []string{"acct", "other"} {
		if _, err := accounts.Create(t.Context(), account.CreateParams{ID: id, Currency: "USD", Actor: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	s.clientID, s.client = s.key(t, auth.ScopeClient, "acct")
	_, s.operator = s.key(t, auth.ScopeOperator, "")
	s.box = startBox(t, pool)
	port, err := httpbroker.New(httpbroker.Config{URL: "http://127.0.0.1:1", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s.streams = api.NewStream(api.StreamParams{
		Hub: s.box.Hub, Events: s.box.Events, Keys: s.keys, Accounts: accounts,
		Purchases: purchase.New(purchase.Params{
			Pool: pool, Accounts: accounts, Brokers: purchase.NewBrokers(purchase.Member{Broker: port}),
		}), Max: most,
	})
	t.Cleanup(s.streams.Close)
	s.server = httptest.NewUnstartedServer(s.authenticated(s.streams))
	s.server.EnableHTTP2 = true
	t.Cleanup(s.server.Close)
	return s
}

// startHTTP serves HTTP/1.1, startTLS the same within TLS, startHTTP2 HTTP/2 alone.
func (s *streaming) startHTTP() *streaming { s.server.Start(); return s }

func (s *streaming) startTLS() *streaming {
	s.server.EnableHTTP2 = false
	s.server.StartTLS()
	return s
}

// startHTTP2's client says that it takes little, as HTTP/1's does by its socket.
func (s *streaming) startHTTP2() *streaming {
	s.server.StartTLS()
	s.server.Client().Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	return s
}

func startBox(t testing.TB, pool *pgxpool.Pool) *outbox.Outbox {
	t.Helper()
	box := outbox.New(outbox.Config{
		Pool: pool, ListenURL: pool.Config().ConnString(), Keep: 168 * time.Hour, Encode: api.EncodeEvent,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- box.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run outbox: %v", err)
		}
	})
	<-box.Hub.Ready()
	return box
}

func (s *streaming) key(t testing.TB, scope, accountID string) (id, secret string) {
	t.Helper()
	key, secret, err := s.keys.Create(t.Context(), auth.CreateParams{Scope: scope, AccountID: accountID})
	if err != nil {
		t.Fatal(err)
	}
	return key.ID, secret
}

// authenticated is what stands before the streams, as short as can be.
func (s *streaming) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		p, err := s.keys.Authenticate(r.Context(), secret)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.With(r.Context(), p)))
	})
}

// purchase makes a row that a stream may be asked for.
func (s *streaming) purchase(t testing.TB, accountID string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	s.exec(t, `INSERT INTO transaction_history (id, account_id, idempotency_key, fingerprint, symbol, quantity, limit_price,
			currency, hold, broker, broker_key, broker_request, request_hash)
		VALUES ($1, $2, $3, '', 'AAPL', 1, 1, 'USD', 1, 'http', $3, '', '')`, id, accountID, id.String())
	return id
}

// happen commits status changes of new purchases of an account, and relays them.
func (s *streaming) happen(t testing.TB, accountID string, n int) {
	t.Helper()
	s.exec(t, `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
		SELECT gen_random_uuid(), $1, 2, 'COMPLETED', 'PENDING' FROM generate_series(1, $2)`, accountID, n)
	s.box.Wake()
}

// until waits for the hub to have delivered an event.
func (s *streaming) until(t testing.TB, id int64) {
	t.Helper()
	soon(t, fmt.Sprintf("event %d is delivered", id), func() bool { return s.box.Hub.Position() >= id })
}

func (s *streaming) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(streamPatience)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// request asks for a stream with a key, a query and a Last-Event-ID ("-" for none).
func (s *streaming) request(t testing.TB, secret, query, last string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+"/v1/events?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	if last != "-" {
		r.Header.Set("Last-Event-ID", last)
	}
	response, err := s.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// open asks for a stream and expects one.
func (s *streaming) open(t testing.TB, secret, query, last string) *frames {
	t.Helper()
	response := s.request(t, secret, query, last)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("stream: %s", response.Status)
	}
	return readFrames(t, response)
}

// frame is one block of a stream.
type frame struct {
	id, event, data string
	retry, comment  string
}

// frames reads a stream in the background.
type frames struct {
	next chan frame
	t    testing.TB
}

func readFrames(t testing.TB, response *http.Response) *frames {
	f := &frames{next: make(chan frame, 1<<16), t: t}
	go func() {
		defer close(f.next)
		scanner := bufio.NewScanner(response.Body)
		var block []string
		for scanner.Scan() {
			if line := scanner.Text(); line != "" {
				block = append(block, line)
				continue
			}
			f.next <- parseFrame(block)
			block = nil
		}
	}()
	return f
}

func parseFrame(lines []string) (f frame) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			f.data = value
		case "retry":
			f.retry = value
		case "":
			f.comment = "comment:" + value
		}
	}
	return f
}

// take returns the next block, ok false where the stream has ended.
func (f *frames) take() (frame, bool) {
	f.t.Helper()
	select {
	case block, ok := <-f.next:
		return block, ok
	case <-time.After(streamPatience):
		f.t.Fatal("nothing comes on the stream")
		return frame{}, false
	}
}

// event returns the next event, passing over comments.
func (f *frames) event() frame {
	f.t.Helper()
	for {
		block, ok := f.take()
		if !ok {
			f.t.Fatal("the stream has ended")
		}
		if block.event != "" {
			return block
		}
	}
}

// wants expects events with these ids, and "resync:reason", in this order.
func (f *frames) wants(want ...string) {
	f.t.Helper()
	for _, w := range want {
		block := f.event()
		got := block.id
		if block.event == "resync" {
			got = "resync:" + block.field("reason")
			if block.id != "" {
				f.t.Errorf("a resync has the id %s", block.id)
			}
		}
		if got != w {
			f.t.Fatalf("got %s, want %s of %v", got, w, want)
		}
	}
}

// ends waits for the end of the stream and returns the events before it.
func (f *frames) ends() (events int) {
	f.t.Helper()
	for {
		block, ok := f.take()
		if !ok {
			return events
		}
		if block.event != "" {
			events++
		}
	}
}

func (f frame) field(name string) string {
	var fields map[string]any
	if err := json.NewDecoder(bytes.NewReader([]byte(f.data))).Decode(&fields); err != nil {
		return err.Error()
	}
	return fmt.Sprint(fields[name])
}

func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values.Encode()
}
