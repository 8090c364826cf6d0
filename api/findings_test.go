package api_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// finds stores a finding as a match does.
func (w *world) finds(kind, orderID string) string {
	w.t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	w.exec(`INSERT INTO statement_finding (id, broker, kind, subject, broker_key, order_id, detail)
	        VALUES ($1::text::uuid, 'sandbox', $2, $1::text, 'hf-0123456789abcdef0123456789abcdef', $3, 'the broker lists it')`, id, kind, orderID)
	return id
}

func TestFindings(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first, second := w.finds("unknown_order", "1"), w.finds("cost_differs", "2")
	list := func(query string) []string {
		t.Helper()
		var ids []string
		for _, f := range w.get("/v1/findings"+query, w.operator).wantStatus(200).json["data"].([]any) {
			ids = append(ids, f.(map[string]any)["id"].(string))
		}
		return ids
	}
	closing := func(id, key string, body any) *answer {
		t.Helper()
		return w.do(request{method: "POST", path: "/v1/findings/" + id + "/closing", key: key, body: body})
	}
	t.Run("NewestFirst", func(t *testing.T) {
		if got := list(""); !slices.Equal(got, []string{second, first}) {
			t.Errorf("findings are %v", got)
		}
		if got := list("?kind=unknown_order&status="); !slices.Equal(got, []string{first}) {
			t.Errorf("findings of one kind are %v", got)
		}
	})
	t.Run("Pages", func(t *testing.T) {
		a := w.get("/v1/findings?limit=1", w.operator).wantStatus(200)
		if got := list("?limit=1&cursor=" + a.text("next_cursor")); !slices.Equal(got, []string{first}) {
			t.Errorf("the second page is %v", got)
		}
		if got := w.get("/v1/findings?limit=2", w.operator).json["next_cursor"]; got != nil {
			t.Errorf("the last page has the cursor %v", got)
		}
	})
	t.Run("Invalid", func(t *testing.T) {
		for _, query := range []string{"?status=OPEN", "?kind=x", "?limit=0", "?limit=501", "?cursor=x", "?account_id=acct-1", "?kind=a&kind=b"} {
			w.get("/v1/findings"+query, w.operator).wantProblem(400, "invalid-request")
		}
		for _, body := range []any{fields{}, fields{"note": ""}, fields{"note": 1}, fields{"note": "x", "more": "y"}, "["} {
			closing(first, w.operator, body).wantProblem(400, "invalid-request")
		}
		for _, id := range []string{uuid.NewString(), "x", "%00"} {
			closing(id, w.operator, fields{"note": "x"}).wantProblem(404, "not-found")
		}
	})
	t.Run("OperatorsOnly", func(t *testing.T) {
		w.get("/v1/findings", w.client).wantProblem(403, "forbidden")
		w.get("/v1/findings", "").wantProblem(401, "unauthorized")
		closing(first, w.client, fields{"note": "x"}).wantProblem(403, "forbidden")
	})
	t.Run("Close", func(t *testing.T) {
		closing(first, w.operator, fields{"note": "cancelled at the broker"}).wantStatus(200).
			wantText("id", first).wantText("note", "cancelled at the broker").wantText("order_id", "1")
		closing(first, w.operator, fields{"note": "again"}).wantStatus(200).wantText("note", "cancelled at the broker")
		if got := list("?status=open"); !slices.Equal(got, []string{second}) {
			t.Errorf("open findings are %v", got)
		}
		if got := list("?status=closed"); !slices.Equal(got, []string{first}) {
			t.Errorf("closed findings are %v", got)
		}
	})
}

func TestConsoleFindings(t *testing.T) {
	t.Parallel()
	b := console(t)
	id := b.finds("second_order", "<b>7</b>")
	b.open("/console/findings").wantStatus(200).wantOnPage("second_order", "&lt;b&gt;7&lt;/b&gt;", "/console/findings/"+id+"/closing")
	b.open("/console/").wantOnPage(`<a href="/console/findings">1</a>`)
	closing := "/console/findings/" + id + "/closing"
	b.form(closing, url.Values{"note": {" "}}).wantStatus(400).wantOnPage("Say in the note")
	b.form(closing, url.Values{"note": {"x"}}, "Sec-Fetch-Site", "cross-site").wantProblem(403, "forbidden")
	b.form("/console/findings/"+uuid.NewString()+"/closing", url.Values{"note": {"x"}}).wantStatus(404)
	b.form("/console/findings/x/closing", url.Values{"note": {"x"}}).wantStatus(404)
	b.form(closing, url.Values{"note": {"sold again"}}).wantStatus(303).wantHeader("Location", "/console/findings?said=finding-closed")
	b.open("/console/findings?said=finding-closed").wantOnPage("is closed", "None.").wantNotOnPage(id)
	b.open("/console/findings?status=closed").wantOnPage("sold again", "second_order")
}
