package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The ways to serve a stream must be told apart by nothing but the protocol.
var protocols = map[string]func(*streaming) *streaming{
	"HTTP1":    (*streaming).startHTTP,
	"HTTP1TLS": (*streaming).startTLS,
	"HTTP2":    (*streaming).startHTTP2,
}

func onEach(t *testing.T, most int, test func(*testing.T, *streaming)) {
	t.Helper()
	for name, begin := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, begin(newStreaming(t, most)))
		})
	}
}

// onAll is for tests that mostly wait: they wait for all protocols at once.
func onAll(t *testing.T) map[string]*streaming {
	t.Helper()
	all := map[string]*streaming{}
	for name, begin := range protocols {
		all[name] = begin(newStreaming(t, 0))
	}
	return all
}

func TestStreamOfOnePurchase(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		id := s.purchase(t, "acct")
		response := s.request(t, s.client, "account_id=&purchase_id="+id.String(), "-")
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no", "Content-Encoding": "",
			"Holdfast-Stream-Position": "0",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		stream := readFrames(t, response)
		first, _ := stream.take()
		if retry, err := strconv.Atoi(first.retry); err != nil || retry < 1000 || retry > 5000 || first.comment == "" {
			t.Errorf("the stream begins with %+v", first)
		}
		s.happen(t, "acct", 3)
		s.exec(t, `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status, reason, occurred_at)
			VALUES ($1, 'acct', 2, 'UNKNOWN', 'PENDING', 'timeout', '2025-01-02T03:04:05.678901Z')`, id)
		s.box.Wake()
		got := stream.event()
		want := fmt.Sprintf(`{"id":"%s","purchase_id":"%s","account_id":"acct","status":"UNKNOWN","previous_status":"PENDING",`+
			`"outcome":"pending_reconciliation","version":2,"reason":"timeout","occurred_at":"2025-01-02T03:04:05.678901Z"}`, got.id, id)
		if got.event != "purchase.unknown" || got.data != want {
			t.Errorf("got %+v, want data %s", got, want)
		}
		s.exec(t, `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
			VALUES ($1, 'acct', 3, 'MANUAL_REVIEW', 'UNKNOWN'), ($1, 'acct', 4, 'COMPLETED', 'MANUAL_REVIEW')`, id)
		s.box.Wake()
		if got := stream.event(); got.event != "purchase.manual_review" || got.field("outcome") != "pending_reconciliation" {
			t.Errorf("got %+v", got)
		}
		if got := stream.event(); got.event != "purchase.completed" || got.field("outcome") != "completed" || got.field("reason") != "<nil>" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestLastEventID(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		s.happen(t, "acct", 4)
		s.until(t, 4)
		cases := map[string]struct {
			header, query string
			want          []string
		}{
			"None":            {"-", "", nil},
			"EmptyHeader":     {"", "", nil},
			"EmptyQuery":      {"-", "last_event_id=", nil},
			"Zero":            {"0", "", []string{"1", "2", "3", "4"}},
			"ZeroInQuery":     {"-", "last_event_id=0", []string{"1", "2", "3", "4"}},
			"Middle":          {"2", "", []string{"3", "4"}},
			"Last":            {"4", "", nil},
			"HeaderWins":      {"3", "last_event_id=0", []string{"4"}},
			"Polyfill":        {"-", "lastEventId=2", []string{"3", "4"}},
			"AgainstCaches":   {"-", "lastEventId=3&_=1718000000", []string{"4"}},
			"PolyfillEmpty":   {"-", "lastEventId=&last_event_id=3", []string{"4"}},
			"HeaderWinsWrong": {"x", "last_event_id=0", []string{"resync:unreadable"}},
			"Ahead":           {"5", "", []string{"resync:ahead"}},
			"FarAhead":        {"9223372036854775807", "", []string{"resync:ahead"}},
			"BeyondAll":       {"99999999999999999999999", "", []string{"resync:ahead"}},
			"Word":            {"abc", "", []string{"resync:unreadable"}},
			"WordInQuery":     {"-", "last_event_id=abc", []string{"resync:unreadable"}},
			"Negative":        {"-1", "", []string{"resync:unreadable"}},
			"Signed":          {"-", query("last_event_id", "+1"), []string{"resync:unreadable"}},
			"Fraction":        {"1.5", "", []string{"resync:unreadable"}},
			"LeadingZero":     {"01", "", []string{"resync:unreadable"}},
			"Blank":           {"-", query("last_event_id", " "), []string{"resync:unreadable"}},
			"NoUTF8":          {"-", "last_event_id=%ff%fe", []string{"resync:unreadable"}},
			"Injection":       {"-", query("last_event_id", "1\nid: 7"), []string{"resync:unreadable"}},
		}
		streams := map[string]*frames{}
		for name, c := range cases {
			streams[name] = s.open(t, s.operator, c.query, c.header)
		}
		soon(t, "all subscribed", func() bool { return s.box.Subscribers() == len(cases) })
		s.happen(t, "other", 1)
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				streams[name].t = t
				streams[name].wants(append(c.want, "5")...)
			})
		}
	})
}

func TestResyncWhereRetentionHasTaken(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		s.exec(t, "UPDATE purchase_event_head SET dropped_id = 10")
		s.happen(t, "acct", 3)
		fresh := startBox(t, s.pool) // a process that begins after it knows no more
		soon(t, "logged", func() bool { return fresh.Hub.Position() == 13 })
		soon(t, "the process has heard of it", func() bool { return !s.box.Hub.Recent(9) && s.box.Hub.Position() == 13 })
		expired := s.open(t, s.operator, "", "9")
		kept := s.open(t, s.operator, "", "10")
		oldest := s.open(t, s.operator, "", "0")
		soon(t, "all subscribed", func() bool { return s.box.Subscribers() == 3 })
		s.happen(t, "acct", 1)
		expired.wants("resync:expired", "14")
		kept.wants("11", "12", "13", "14")
		oldest.wants("11", "12", "13", "14")
	})
}

// There is nothing but streams to be had here, whatever a client says that it accepts.
func TestStreamWhateverIsAccepted(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, 0).startHTTP()
	for _, accept := range []string{"", "*/*", "text/event-stream", "application/json", "text/event-stream;q=0", "nonsense"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + s.client}, "Accept": {accept}, "Accept-Encoding": {"gzip, br, zstd"}}
		response, err := s.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("Content-Encoding") != "" {
			t.Errorf("Accept %q: %s %v", accept, response.Status, response.Header)
		}
	}
}

// A filter that cannot be read must not become none, and one of two must not win in silence.
func TestStreamOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, 0).startHTTP()
	for query, at := range map[string]string{
		"account_id=%zz": "query", "account_id=acct;purchase_id=x": "query",
		"account_id=acct&account_id=other":  "account_id",
		"purchase_id=&purchase_id=x":        "purchase_id",
		"last_event_id=1&last_event_id=2":   "last_event_id",
		"%ff=1":                             "\uFFFD",
		"purchase=x":                        "purchase",
		"last_event_id=1&ticket=%&x=y&z=%1": "query",
	} {
		response := s.request(t, s.operator, query, "-")
		var problem struct {
			Type   string
			Errors []struct{ Location string }
		}
		if err := json.NewDecoder(response.Body).Decode(&problem); err != nil {
			t.Errorf("%s: %v", query, err)
		}
		if response.StatusCode != http.StatusBadRequest || !strings.HasSuffix(problem.Type, "/invalid-request") ||
			len(problem.Errors) != 1 || problem.Errors[0].Location != at {
			t.Errorf("%s: %s %+v", query, response.Status, problem)
		}
	}
	if n := s.streams.Open(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

func TestStreamSeesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		mine, others := s.purchase(t, "acct"), s.purchase(t, "other")
		refused := map[string]struct{ key, query, slug string }{
			"AnothersAccount":         {s.client, "account_id=other", "account-not-found"},
			"NoSuchAccount":           {s.operator, "account_id=nobody", "account-not-found"},
			"MalformedAccount":        {s.operator, query("account_id", "a b"), "account-not-found"},
			"AnothersPurchase":        {s.client, "purchase_id=" + others.String(), "not-found"},
			"NoSuchPurchase":          {s.operator, "purchase_id=" + uuid.NewString(), "not-found"},
			"MalformedPurchase":       {s.operator, "purchase_id=1", "not-found"},
			"PurchaseOfOtherAccount":  {s.operator, "account_id=other&purchase_id=" + mine.String(), "not-found"},
			"MalformedPurchaseBraces": {s.client, query("purchase_id", "{"+mine.String()+"}"), "not-found"},
		}
		for name, c := range refused {
			response := s.request(t, c.key, c.query, "-")
			var problem struct{ Type string }
			if err := json.NewDecoder(response.Body).Decode(&problem); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if response.StatusCode != http.StatusNotFound || !strings.HasSuffix(problem.Type, "/"+c.slug) ||
				response.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: %s %s", name, response.Status, problem.Type)
			}
		}
		own := s.open(t, s.client, "", "-")
		named := s.open(t, s.client, "account_id=acct", "-")
		all := s.open(t, s.operator, "", "-")
		elsewhere := s.open(t, s.operator, "account_id=other", "-")
		soon(t, "all subscribed", func() bool { return s.box.Subscribers() == 4 })
		s.happen(t, "other", 1)
		s.happen(t, "acct", 1)
		own.wants("2")
		named.wants("2")
		all.wants("1", "2")
		elsewhere.wants("1")
	})
}

// A replay of more than the hub remembers, while more goes on happening.
func TestReplayMeetsLive(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		s.happen(t, "acct", 3000)
		s.until(t, 3000)
		stream := s.open(t, s.operator, "", "0")
		for range 20 {
			s.happen(t, "acct", 50)
		}
		for id := range 4000 {
			stream.wants(strconv.Itoa(id + 1))
		}
	})
}

// Subscribers that come and go, resuming with what they saw last, each see everything once.
func TestResumeWithNothingLost(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, 0).startHTTP()
	const total, readers = 2000, 8
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for last := 0; last < total; {
				last = s.readSome(t, last)
			}
		})
	}
	for range total / 20 {
		s.happen(t, "acct", 20)
		<-time.After(3 * time.Millisecond) // a load, not a wait
	}
	wg.Wait()
}

// readSome reads a random number of events after last, and returns the last of them.
func (s *streaming) readSome(t *testing.T, last int) int {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+"/v1/events", nil)
	r.Header.Set("Authorization", "Bearer "+s.operator)
	r.Header.Set("Last-Event-ID", strconv.Itoa(last))
	response, err := s.server.Client().Do(r)
	if err != nil {
		t.Error(err)
		return 1 << 30
	}
	defer response.Body.Close()
	stream := readFrames(t, response)
	for n := rand.IntN(400); n >= 0; n-- {
		block, ok := <-stream.next
		if !ok {
			return last
		}
		if block.event == "" {
			continue
		}
		if block.id != strconv.Itoa(last+1) {
			t.Errorf("after %d came %s %s", last, block.event, block.id)
			return 1 << 30
		}
		if last++; last == 2000 {
			break
		}
	}
	return last
}

func TestRevokedKeyEndsItsStreams(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		dead, alive := s.open(t, s.client, "", "-"), s.open(t, s.operator, "", "-")
		if _, err := s.keys.Revoke(t.Context(), s.clientID); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		dead.ends()
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		s.happen(t, "acct", 1)
		alive.wants("1")
	})
}

func TestCloseEndsAllStreams(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		var streams []*frames
		for range 5 {
			streams = append(streams, s.open(t, s.operator, "", "-"))
		}
		s.streams.Close()
		for _, stream := range streams {
			stream.ends()
		}
		response := s.request(t, s.operator, "", "-")
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
			t.Errorf("a stream after the close: %s", response.Status)
		}
		soon(t, "nobody subscribed", func() bool { return s.box.Subscribers() == 0 })
	})
}

func TestStreamsAreCapped(t *testing.T) {
	t.Parallel()
	onEach(t, 3, func(t *testing.T, s *streaming) {
		var first *http.Response
		for i := range 3 {
			response := s.request(t, s.operator, "", "-")
			if i == 0 {
				first = response
			}
		}
		waits := map[string]bool{}
		for range 20 {
			response := s.request(t, s.operator, "", "-")
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("one stream too many: %s", response.Status)
			}
			wait := response.Header.Get("Retry-After")
			if n, err := strconv.Atoi(wait); err != nil || n < 1 || n > 12 {
				t.Fatalf("Retry-After: %q", wait)
			}
			waits[wait] = true
		}
		if len(waits) < 2 {
			t.Error("all are told to come back at once")
		}
		first.Body.Close()
		soon(t, "a place is free again", func() bool { return s.request(t, s.operator, "", "-").StatusCode == http.StatusOK })
	})
}

// A key that has all of its streams is refused, and others are not.
func TestStreamsOfOneKeyAreCapped(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, 0)
	s.streams.SetKeyMax(2)
	s.startHTTP()
	first := s.request(t, s.client, "", "-")
	s.request(t, s.client, "", "-")
	for range 3 {
		response := s.request(t, s.client, "", "-")
		if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
			t.Fatalf("one stream too many: %s", response.Status)
		}
	}
	for range 3 {
		if response := s.request(t, s.operator, "", "-"); response.StatusCode != http.StatusOK {
			t.Fatalf("an operator's: %s", response.Status)
		}
	}
	first.Body.Close()
	soon(t, "a place is free again", func() bool { return s.request(t, s.client, "", "-").StatusCode == http.StatusOK })
}

func TestClientThatGoesIsForgotten(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		response := s.request(t, s.operator, "", "-")
		soon(t, "subscribed", func() bool { return s.box.Subscribers() == 1 })
		begun := time.Now()
		response.Body.Close()
		soon(t, "forgotten", func() bool { return s.box.Subscribers() == 0 })
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestQuietStreamGetsComments(t *testing.T) {
	t.Parallel()
	quiet := map[string]*frames{}
	for name, s := range onAll(t) {
		quiet[name] = s.open(t, s.operator, "", "-")
		quiet[name].take()
	}
	begun := time.Now()
	for name, stream := range quiet {
		block, ok := stream.take()
		if took := time.Since(begun); !ok || block.comment == "" || block.event != "" || block.id != "" || took > 15*time.Second {
			t.Errorf("%s: got %+v after %v", name, block, took)
		}
	}
}
