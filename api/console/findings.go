package console

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"holdfast/auth"
	"holdfast/statement"
)

const findingsPath = "/console/findings"

type findingsView struct {
	view
	Closed   bool
	Findings []statement.Finding
	Next     string
}

// listFindings shows the open findings, or with ?status=closed the closed ones.
func (c *console) listFindings(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	query := r.URL.Query()
	v := findingsView{view: c.view(ctx), Closed: query.Get("status") == "closed"}
	if word := query.Get("said"); word == "finding-closed" {
		v.Message = said[word]
	}
	open := !v.Closed
	params := statement.ListParams{Open: &open, Limit: pageSize + 1}
	if id, err := uuid.Parse(query.Get("before")); err == nil {
		params.Before = &id
	}
	found, err := c.findings.List(ctx, params)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	v.Findings = found[:min(pageSize, len(found))]
	if len(found) > pageSize {
		v.Next = found[pageSize-1].ID.String()
	}
	render(w, http.StatusOK, "findings", v)
}

func (c *console) closeFinding(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		c.nothing(w, r)
		return
	}
	note := strings.TrimSpace(r.PostFormValue("note"))
	trouble := noteTrouble(note)
	if note == "" {
		trouble = "Say in the note what was found out and done."
	}
	if trouble != "" {
		c.message(w, r, http.StatusBadRequest, "Not closed", trouble)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), queryTimeout)
	defer cancel()
	switch _, err := c.findings.Close(ctx, id, note, auth.From(ctx).Actor()); {
	case errors.Is(err, statement.ErrNotFound):
		c.nothing(w, r)
	case err != nil:
		c.fail(w, r, err)
	default:
		http.Redirect(w, r, findingsPath+"?said=finding-closed", http.StatusSeeOther)
	}
}
