package app

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/config"
	"holdfast/purchase"
	"holdfast/statement"
)

func (n *node) newMatcher(pool *pgxpool.Pool, purchases *purchase.Service) *statement.Matcher {
	return statement.New(statement.Params{
		Pool: pool, Purchases: purchases, Alerts: n.alerts, Broker: n.broker, Gate: n.gate, KeyNamespace: n.config.Broker.KeyNamespace,
		Interval: n.config.MatchInterval, Log: n.log,
	})
}

// OpenMatcher returns a matcher for one use on pool, and what must be called after it.
func OpenMatcher(
	ctx context.Context, c config.Config, pool *pgxpool.Pool, log *slog.Logger,
) (*statement.Matcher, func(), error) {
	n := newNode(Params{Config: c, Role: RoleWorker, Log: log})
	n.requests, n.work, n.relay = pool, pool, pool
	if err := n.openBrokers(ctx); err != nil {
		return nil, nil, err
	}
	done := func() { _ = n.stop(context.WithoutCancel(ctx)) }
	if err := n.openServices(ctx); err != nil {
		done()
		return nil, nil, err
	}
	return n.newMatcher(pool, n.worked), done, nil
}
