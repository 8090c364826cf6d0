// Package sql holds the schema and every query: migrations (goose), River's own
// migrations, the queries from which sqlc generates the db package of each domain package, and Migrate.
//
// It is a leaf and has no rules of its own; the rooms that own a table call its
// generated queries.
package sql
