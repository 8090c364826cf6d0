package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxScript bounds how many acts wait.
const maxScript = 10_000

// LedgerEntry is one key in GET /control/ledger.
type LedgerEntry struct {
	Key     string `json:"key"`
	Account string `json:"account"`
	Symbol  string `json:"symbol"`
	Places  int    `json:"places"`
	Lookups int    `json:"lookups"`
	// Order is null where nothing was booked.
	Order    *View      `json:"order"`
	BookedAt *time.Time `json:"booked_at"`
}

// Ledger is the answer of GET /control/ledger: the calls counted since the process
// started, and every key that a place came with, in the order of the keys.
type Ledger struct {
	Places  int           `json:"places"`
	Lookups int           `json:"lookups"`
	Orders  int           `json:"orders"`
	Data    []LedgerEntry `json:"data"`
}

// Ledger returns what the broker has, under one key if key is not empty.
func (s *Sandbox) Ledger(key string) Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Ledger{Places: s.places, Lookups: s.lookups, Data: []LedgerEntry{}}
	for _, rec := range s.records {
		if rec.Order != nil {
			all.Orders++
		}
		if key == "" || key == rec.Key {
			all.Data = append(all.Data, rec.entry())
		}
	}
	slices.SortFunc(all.Data, func(a, b LedgerEntry) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func (r *record) entry() LedgerEntry {
	entry := LedgerEntry{Key: r.Key, Account: r.Request.Account, Symbol: r.Request.Symbol, Places: r.Places, Lookups: r.Lookups}
	if r.Order != nil {
		at := r.Order.BookedAt
		entry.Order, entry.BookedAt = r.view(), &at
	}
	return entry
}

// Script appends acts for the next calls.
func (s *Sandbox) Script(acts ...Response) error {
	for _, act := range acts {
		if err := act.check(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.script)+len(acts) > maxScript {
		return errors.New("too many acts wait")
	}
	s.script = append(s.script, acts...)
	return nil
}

// SetMode replaces the mode.
func (s *Sandbox) SetMode(mode Mode) error {
	if err := mode.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
	return nil
}

// Forget loses every key and order, and keeps the counts.
func (s *Sandbox) Forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.records)
	return s.file.append(struct{}{})
}

func (s *Sandbox) getLedger(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, s.Ledger(r.URL.Query().Get("key")))
}

func (s *Sandbox) forgetLedger(w http.ResponseWriter, _ *http.Request) {
	if err := s.Forget(); err != nil {
		refuse(w, http.StatusInternalServerError, "ledger_failed", err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// scriptBody is the script in GET and POST /control/script.
type scriptBody struct {
	Acts []Response `json:"acts"`
}

func (s *Sandbox) getScript(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	acts := slices.Clone(s.script)
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, scriptBody{Acts: append([]Response{}, acts...)})
}

func (s *Sandbox) addScript(w http.ResponseWriter, r *http.Request) {
	var body scriptBody
	if err := readControl(w, r, &body); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	if err := s.Script(body.Acts...); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	s.getScript(w, r)
}

func (s *Sandbox) clearScript(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.script = nil
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (s *Sandbox) getMode(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	mode := s.mode
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, mode)
}

func (s *Sandbox) putMode(w http.ResponseWriter, r *http.Request) {
	var mode Mode
	if err := readControl(w, r, &mode); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	if err := s.SetMode(mode); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	s.getMode(w, r)
}

func readControl(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
