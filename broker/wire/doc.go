// Package wire makes one exchange with a broker over HTTP and reads what came back
// without believing any of it: one request on the wire whatever happens to the
// connection, one deadline over all of it, a bounded body, exact decimals.
//
// It knows no broker's vocabulary. Adapters (httpbroker, alpaca) import it and judge
// its [Reply]; nobody else needs it.
package wire
