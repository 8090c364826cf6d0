package account

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"holdfast/account/db"
	"holdfast/internal/money"
)

var (
	// ErrNotFound: there is no such account.
	ErrNotFound = errors.New("account not found")
	// ErrExists: the id belongs to an account already.
	ErrExists = errors.New("account exists")
	// ErrID: the id is not of the form [A-Za-z0-9][A-Za-z0-9._-]{0,63}.
	ErrID = errors.New("account id must be 1 to 64 of A-Z a-z 0-9 . _ - and start with a letter or digit")
	// ErrCurrency: ISO 4217 knows no such currency.
	ErrCurrency = errors.New("currency is not an ISO 4217 code")
	// ErrAmount: an amount is negative, zero where it must not be, or has more
	// decimals than its currency.
	ErrAmount = errors.New("amount does not fit the currency")
	// ErrKeyReused: the idempotency key belongs to another deposit.
	ErrKeyReused = errors.New("idempotency key was used for another deposit")
)

// Account is one balance. Always Deposited = Available + Reserved + Spent. Available
// is below zero only by what settled costs exceeded their holds.
type Account struct {
	ID        string
	Currency  string
	Available decimal.Decimal
	Reserved  decimal.Decimal
	Spent     decimal.Decimal
	Deposited decimal.Decimal
	// Broker takes its purchases; empty: the default one. BrokerAccount is its name there;
	// empty: its id.
	Broker, BrokerAccount string
}

// Store reads and writes accounts. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	// terms are the [Terms] that were read, by account id.
	terms sync.Map
}

// New returns the accounts of a database.
func New(pool *pgxpool.Pool) *Store {
	return &Store{pool: pool}
}

// CreateParams describes a new account; Available may be zero.
type CreateParams struct {
	ID        string
	Currency  string
	Available decimal.Decimal
	// Broker takes its purchases; empty: the default one. BrokerAccount is its name there;
	// empty: its id. Whether such a broker exists is for the caller to check.
	Broker, BrokerAccount string
	// Actor is who creates it, such as "operator:KEY-ID".
	Actor string
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ValidID reports whether id has an account id's form.
func ValidID(id string) bool { return idForm.MatchString(id) }

// Create makes an account; its opening balance is its first deposit.
func (s *Store) Create(ctx context.Context, p CreateParams) (Account, error) {
	if !ValidID(p.ID) {
		return Account{}, ErrID
	}
	if _, known := money.CurrencyDecimals(p.Currency); !known {
		return Account{}, ErrCurrency
	}
	if p.Available.IsNegative() || !fits(p.Available, p.Currency) {
		return Account{}, ErrAmount
	}
	row, err := db.New(s.pool).CreateAccount(ctx, db.CreateAccountParams{
		ID: p.ID, Currency: p.Currency, Available: p.Available, Broker: p.Broker,
		BrokerAccount: p.BrokerAccount, DepositID: newID(), Actor: p.Actor,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, ErrExists
	}
	if err != nil {
		return Account{}, fmt.Errorf("create account: %w", err)
	}
	return fromRow(db.Account(row)), nil
}

// Get returns an account.
func (s *Store) Get(ctx context.Context, id string) (Account, error) {
	row, err := db.New(s.pool).AccountByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, ErrNotFound
	}
	if err != nil {
		return Account{}, fmt.Errorf("read account: %w", err)
	}
	return fromRow(row), nil
}

// MaxListed bounds a listing.
const MaxListed = 10_000

// List returns the accounts in the order of their ids, [MaxListed] at most; more tells
// that there are others.
func (s *Store) List(ctx context.Context) (list []Account, more bool, err error) {
	rows, err := db.New(s.pool).ListAccounts(ctx, MaxListed+1)
	if err != nil {
		return nil, false, fmt.Errorf("list accounts: %w", err)
	}
	list = make([]Account, min(MaxListed, len(rows)))
	for i := range list {
		list[i] = fromRow(rows[i])
	}
	return list, len(rows) > MaxListed, nil
}

// DepositParams describes a deposit. Its key is unique per account.
type DepositParams struct {
	AccountID      string
	IdempotencyKey string
	Amount         decimal.Decimal
	Note           string
	Actor          string
}

// Deposit adds money, once per key; repeated tells that the key had been used for the
// same amount and note before.
func (s *Store) Deposit(ctx context.Context, p DepositParams) (acc Account, repeated bool, err error) {
	currency, err := s.Currency(ctx, p.AccountID)
	if err != nil {
		return Account{}, false, err
	}
	if !p.Amount.IsPositive() || !fits(p.Amount, currency) {
		return Account{}, false, ErrAmount
	}
	row, err := db.New(s.pool).RecordDeposit(ctx, db.RecordDepositParams{
		ID: newID(), AccountID: p.AccountID, IdempotencyKey: p.IdempotencyKey,
		Amount: p.Amount, Note: p.Note, Actor: p.Actor,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return s.repeat(ctx, p)
	}
	if err != nil {
		return Account{}, false, fmt.Errorf("record deposit: %w", err)
	}
	return fromRow(row), false, nil
}

func (s *Store) repeat(ctx context.Context, p DepositParams) (Account, bool, error) {
	first, err := db.New(s.pool).DepositByKey(ctx, p.AccountID, &p.IdempotencyKey)
	if err != nil {
		return Account{}, false, fmt.Errorf("read deposit: %w", err)
	}
	if !first.Amount.Equal(p.Amount) || first.Note != p.Note {
		return Account{}, false, ErrKeyReused
	}
	acc, err := s.Get(ctx, p.AccountID)
	return acc, true, err
}

// fits reports whether amount has no more decimals, by value, than its currency.
func fits(amount decimal.Decimal, currency string) bool {
	decimals, _ := money.CurrencyDecimals(currency)
	return amount.Equal(amount.Truncate(decimals))
}

func newID() uuid.UUID {
	return uuid.Must(uuid.NewV7())
}

func fromRow(row db.Account) Account {
	return Account{
		ID: row.ID, Currency: row.Currency,
		Available: row.Available, Reserved: row.Reserved, Spent: row.Spent, Deposited: row.Deposited,
		Broker: row.Broker, BrokerAccount: row.BrokerAccount,
	}
}
