// Package purchase is the domain: a purchase, its statuses, the transition table and
// the service that submits, reconciles and resolves purchases.
//
// It asks the broker once, stores what came back, says no more than that proves, and
// finds out the rest. One function, the door, writes a status; with the status go the
// money, the event, the history and, into UNKNOWN, the job, all in one transaction.
//
// It never sees River, chi, net/http or an adapter: jobs implements its [Scheduler],
// adapters implement broker.Broker. api, jobs and cmd import it.
package purchase
