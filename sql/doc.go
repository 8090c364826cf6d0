// Package sql holds the schema and every query: migrations (goose), River's own
// migrations, the queries that sqlc turns into package dbsql, and Migrate.
//
// It is a leaf and has no rules of its own; the rooms that own a table call its
// generated queries.
package sql
