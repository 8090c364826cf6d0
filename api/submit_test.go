package api

import (
	"net/http"
	"testing"

	"holdfast/purchase"
)

// TestSubmissionStatus: which status code a purchase answers with, first and permanently.
func TestSubmissionStatus(t *testing.T) {
	t.Parallel()
	by := func(e purchase.Evidence) *purchase.Evidence { return &e }
	for _, c := range []struct {
		name     string
		status   purchase.Status
		evidence *purchase.Evidence
		replied  int
		want     int
	}{
		{"CompletedBy200", purchase.Completed, by(purchase.ByReply), 200, 200},
		{"CompletedBy201", purchase.Completed, by(purchase.ByReply), 201, 201},
		{"CompletedBy202", purchase.Completed, by(purchase.ByReply), 202, 200},
		{"CompletedBy299", purchase.Completed, by(purchase.ByReply), 299, 200},
		{"CompletedByALookupAfterA201", purchase.Completed, by(purchase.ByLookup), 201, 200},
		{"CompletedByAReplayWith201", purchase.Completed, by(purchase.ByReplay), 201, 200},
		{"CompletedByAnOperator", purchase.Completed, by(purchase.ByOperator), 0, 200},
		{"RejectedBy400", purchase.Rejected, by(purchase.ByReply), 400, 400},
		{"RejectedBy401", purchase.Rejected, by(purchase.ByReply), 401, 422},
		{"RejectedBy403", purchase.Rejected, by(purchase.ByReply), 403, 403},
		{"RejectedBy407", purchase.Rejected, by(purchase.ByReply), 407, 422},
		{"RejectedBy451", purchase.Rejected, by(purchase.ByReply), 451, 451},
		{"RejectedBy499", purchase.Rejected, by(purchase.ByReply), 499, 499},
		{"RejectedInA201", purchase.Rejected, by(purchase.ByReply), 201, 422},
		{"RejectedByALookupAfterA400", purchase.Rejected, by(purchase.ByLookup), 400, 422},
		{"RejectedByAReplaysRefusal", purchase.Rejected, by(purchase.ByReplay), 404, 422},
		{"RejectedByAnOperator", purchase.Rejected, by(purchase.ByOperator), 0, 422},
		{"Pending", purchase.Pending, nil, 0, 202},
		{"Unknown", purchase.Unknown, nil, 500, 202},
		{"ManualReview", purchase.ManualReview, nil, 404, 202},
	} {
		p := purchase.Purchase{Status: c.status, Evidence: c.evidence}
		if c.replied > 0 {
			p.Response = &purchase.Response{StatusCode: c.replied}
		}
		if got := submissionStatus(p); got != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, got, http.StatusText(got), c.want)
		}
	}
}
