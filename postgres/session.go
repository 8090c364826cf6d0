package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// isolation is the level that every statement is written for: it sees what was committed
// before it began. Transactions that need another one say so.
const isolation = "read committed"

// session is what every session sets, so that the defaults of the database or the role do
// not matter.
var session = map[string]string{
	"client_encoding":               "UTF8",
	"default_transaction_isolation": isolation,
}

// planning is what serving sessions set: each statement is planned once per connection,
// whatever its arguments, and its plan must still be right when a table has grown a
// thousandfold. Planning the statement that settles a purchase takes longer than running
// it, and a plan made while a table is small would read all of it.
var planning = map[string]string{
	"plan_cache_mode": "force_generic_plan",
	"enable_seqscan":  "off",
	"jit":             "off",
}

func setSession(config *pgx.ConnConfig, url string, p PoolParams) {
	setParam(config, "application_name", "holdfast "+p.Name)
	if p.Pooled {
		if !strings.Contains(url, "default_query_exec_mode") {
			config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		return
	}
	for name, value := range session {
		setParam(config, name, value)
	}
	if p.Serving {
		for name, value := range planning {
			setParam(config, name, value)
		}
	}
	setParam(config, "statement_timeout", milliseconds(p.Limits.Statement))
	setParam(config, "lock_timeout", milliseconds(p.Limits.Lock))
	setParam(config, "idle_in_transaction_session_timeout", milliseconds(p.Limits.Idle))
}

func setParam(config *pgx.ConnConfig, name, value string) {
	if _, set := config.RuntimeParams[name]; !set {
		config.RuntimeParams[name] = value
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ensureDurable makes a session wait for its commits if the database's default is not to:
// a purchase that a crash forgets may have been sent to the broker. Any other level is the
// operator's choice.
func ensureDurable(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false)
		WHERE current_setting('synchronous_commit') = 'off'`)
	if err != nil {
		return fmt.Errorf("set synchronous_commit: %w", err)
	}
	return nil
}

// ErrPooledDefault is returned if a session behind a pooler has a default that Holdfast
// cannot work with.
var ErrPooledDefault = errors.New("unusable default of the database")

// CheckPooled returns [ErrPooledDefault] if sessions behind a pooler, which cannot set
// anything themselves, have an isolation level that statements are not written for, or do
// not wait for their commits.
func CheckPooled(ctx context.Context, pool *pgxpool.Pool) error {
	var level, commit string
	err := pool.QueryRow(ctx, "SELECT current_setting('default_transaction_isolation'), current_setting('synchronous_commit')").
		Scan(&level, &commit)
	switch {
	case err != nil:
		return fmt.Errorf("read the session's defaults: %w", err)
	case level != isolation:
		return fmt.Errorf("%w: default_transaction_isolation is %q, must be %q, for sessions behind the pooler (ALTER ROLE or ALTER DATABASE … SET)",
			ErrPooledDefault, level, isolation)
	case commit == "off":
		return fmt.Errorf("%w: synchronous_commit is off, must not be, for sessions behind the pooler (ALTER ROLE or ALTER DATABASE … SET)",
			ErrPooledDefault)
	}
	return nil
}
