// Package postgres opens Holdfast's connections to its database: pools with the limits and
// the planner settings of their kind of work, connections that leave an unreachable server
// or a former primary within seconds, and the wait for a database that is still starting.
//
// It knows nothing of what is stored there. cmd, internal/app and tests import it.
package postgres
