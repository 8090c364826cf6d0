package api

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"holdfast/outbox"
	"holdfast/purchase"
)

// eventData is an event on a stream.
type eventData struct {
	ID             string           `json:"id"`
	PurchaseID     string           `json:"purchase_id"`
	AccountID      string           `json:"account_id"`
	Status         string           `json:"status"`
	PreviousStatus string           `json:"previous_status"`
	Outcome        purchase.Outcome `json:"outcome"`
	Version        int              `json:"version"`
	Reason         *string          `json:"reason"`
	OccurredAt     string           `json:"occurred_at"`
}

// EncodeEvent gives the bytes of an event on a stream; the hub calls it once an event,
// for all of its receivers.
func EncodeEvent(e outbox.Event) []byte {
	data, err := json.Marshal(eventData{
		ID: strconv.FormatInt(e.ID, 10), PurchaseID: e.TransactionID.String(), AccountID: e.AccountID,
		Status: e.Status, PreviousStatus: e.PreviousStatus, Outcome: purchase.Status(e.Status).Outcome(),
		Version: e.Version, Reason: e.Reason, OccurredAt: stamp(e.OccurredAt),
	})
	if err != nil {
		panic(fmt.Errorf("marshal event: %w", err))
	}
	return fmt.Appendf(nil, "id: %d\nevent: purchase.%s\ndata: %s\n\n", e.ID, strings.ToLower(e.Status), data)
}

func encodeEvents(page []outbox.Event) []byte {
	var wire []byte
	for _, e := range page {
		wire = append(wire, EncodeEvent(e)...)
	}
	return wire
}

// resyncEvent has no id: the client's next request must not carry one of ours that it has
// not earned.
func resyncEvent(reason string) []byte {
	return fmt.Appendf(nil, "event: resync\ndata: {\"reason\":%q}\n\n", reason)
}

// comment is what a quiet stream carries, so that nobody on the way thinks it dead.
var comment = []byte(":\n\n")

// The wait before a client comes back: spread, for they are all cut off at once.
const (
	retryLeast  = time.Second
	retrySpread = 4 * time.Second
)

// preamble opens a stream: bytes at once, for those on the way that wait for some, and the
// wait before coming back.
func preamble() []byte {
	return fmt.Appendf(nil, ": holdfast events\nretry: %d\n\n", (retryLeast + rand.N(retrySpread)).Milliseconds())
}
