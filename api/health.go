package api

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
)

// pingTimeout is shorter than any prober's patience: a late answer is taken for none.
const pingTimeout = 2 * time.Second

// NewHealth returns what a process without the API serves: health, readiness, metrics.
// Of the params it needs Pool and takes Metrics, Observer, ShuttingDown and Log.
func NewHealth(p Params) http.Handler {
	a := newAPI(p)
	r := chi.NewRouter()
	r.Use(a.identify, a.observe, a.recover, secureHeaders)
	r.NotFound(handle(unknownRoute))
	r.MethodNotAllowed(handle(wrongMethod(r)))
	get(r, "/healthz", a.healthy)
	get(r, "/readyz", a.ready)
	if a.Metrics != nil {
		r.Method(http.MethodGet, "/metrics", a.Metrics)
	}
	return r
}

type healthJSON struct {
	Status string `json:"status"`
}

// healthy: the process is there. It asks nobody else, or an outage of the database
// would make an orchestrator kill what only has to wait.
func (a *api) healthy(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, healthJSON{"ok"})
}

func (a *api) ready(w http.ResponseWriter, r *http.Request) error {
	if a.stopping() || closed(a.Draining) {
		return &problem{slug: unavailable, detail: "this process is shutting down", retryAfter: time.Second}
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	if err := a.Pool.Ping(ctx); err != nil {
		return &problem{slug: unavailable, detail: "the database is away", retryAfter: retryWhenUnavailable, cause: err}
	}
	return answer(w, http.StatusOK, healthJSON{"ready"})
}
