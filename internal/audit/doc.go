// Package audit proves the invariants that hold whatever crashed whenever: what is
// uncertain has its job, balances are the sum of what moved them, events tell the whole
// story, and nothing was asked of the broker under a foreign key.
//
// It reads and never writes: each invariant is one set-based query, and all of them see
// the database as it stood at one moment. It knows the tables and no other room's code;
// cmd alone imports it.
package audit
