package api

import "holdfast/purchase"

type statusEntryJSON struct {
	At      string             `json:"at"`
	Kind    purchase.EntryKind `json:"kind"`
	Status  purchase.Status    `json:"status"`
	Version int                `json:"version"`
	Reason  *string            `json:"reason"`
	Actor   string             `json:"actor"`
}

type attemptEntryJSON struct {
	At         string             `json:"at"`
	Kind       purchase.EntryKind `json:"kind"`
	Call       string             `json:"call"`
	Result     *string            `json:"result"`
	Reason     *string            `json:"reason"`
	StatusCode *int               `json:"status_code"`
	DurationMS *int64             `json:"duration_ms"`
}

type noteEntryJSON struct {
	At     string             `json:"at"`
	Kind   purchase.EntryKind `json:"kind"`
	Code   string             `json:"code"`
	Detail string             `json:"detail"`
	Actor  string             `json:"actor"`
}

// representEntry writes a line of the history: each kind has fields of its own.
func representEntry(e purchase.Entry) any {
	switch e.Kind {
	case purchase.EntryAttempt:
		return attemptEntryJSON{stamp(e.At), e.Kind, e.Call, orNull(e.Result), e.Reason, e.StatusCode, e.DurationMS}
	case purchase.EntryNote:
		return noteEntryJSON{stamp(e.At), e.Kind, e.Code, e.Detail, e.Actor}
	default:
		return statusEntryJSON{stamp(e.At), e.Kind, e.Status, e.Version, e.Reason, e.Actor}
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
