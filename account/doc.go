// Package account keeps the money: accounts, deposits and the balances that purchases
// hold and settle.
//
// A balance moves in three statements only: the deposit here, and in sql/queries the
// statement that records a purchase (hold) and the one that changes its status
// (settle, release). The purchase row is the hold; there is no second ledger.
// purchase, api and cmd import it; it imports no other room but sql.
package account
