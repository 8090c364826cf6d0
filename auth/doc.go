// Package auth tells who makes a request: the keys of clients and operators, the
// operator key of the environment, tokens of an identity provider, one-use tickets
// for streams, and the operators' sessions.
//
// It stores hashes only: SHA-256, because a secret is 256 random bits and a slow hash
// would protect nothing. It writes no HTTP: api and api/console turn its errors into
// answers. An error that is not [ErrUnauthorized] says nothing about the caller, only
// that the database could not be asked.
//
// api, api/console and cmd import it.
package auth
