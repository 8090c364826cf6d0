package main

import (
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// operatorKey sees every account's events.
const operatorKey = "hf_operator_bench_0123456789abcdef"

// accountID and clientKey name the bench's accounts and their keys; accounts.sql makes
// the same.
func accountID(i int) string { return fmt.Sprintf("bench-%d", i) }
func clientKey(i int) string { return fmt.Sprintf("hf_client_bench_0123456789abcdef_%d", i) }

//go:embed accounts.sql
var accountsSQL string

// fillProduct opens the accounts, with more money than any run spends.
func (l *env) fillProduct(conn *pgx.Conn) error {
	if _, err := conn.Exec(l.ctx, accountsSQL, l.o.Accounts); err != nil {
		return fmt.Errorf("make accounts: %w", err)
	}
	_, err := conn.Exec(l.ctx, "VACUUM ANALYZE")
	return err
}

// serve starts the product on a database; more settings may follow. It ends with the
// figure.
func (l *env) serve(database string, settings ...string) (*server, error) {
	return l.serveAt(l.o.Program, l.url(database), []string{"serve"}, settings...)
}

func (l *env) serveAt(program, url string, args []string, settings ...string) (*server, error) {
	dir := fmt.Sprintf("%s/serve-%d", l.dir, l.counter.Add(1))
	return l.startServer(program, args, append([]string{
		"HOLDFAST_DATABASE_URL=" + url, "HOLDFAST_DATA_DIR=" + dir, "HOLDFAST_ADDR=127.0.0.1:0",
		"HOLDFAST_BROKER=http", "HOLDFAST_BROKER_NAME=http", "HOLDFAST_BROKER_URL=" + l.broker.url(), "HOLDFAST_BROKER_TOKEN=bench",
		"HOLDFAST_OPERATOR_KEY=" + operatorKey, "HOLDFAST_LOG_FORMAT=json",
	}, settings...))
}

// product starts the product on a fresh database.
func (l *env) product(settings ...string) (*server, error) {
	database, err := l.copyOf(productTemplate)
	if err != nil {
		return nil, err
	}
	s, err := l.serve(database, settings...)
	if err != nil {
		return nil, err
	}
	s.database = database
	return s, nil
}
