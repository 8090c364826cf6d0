package account_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/internal/testkit/pgtest"
)

func dec(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func TestCreate(t *testing.T) {
	t.Parallel()
	store := account.New(pgtest.New(t))
	cases := []struct {
		name, id, currency, available string
		want                          error
	}{
		{"Plain", "acct-1", "USD", "1000.00", nil},
		{"Empty", "acct-2", "JPY", "0", nil},
		{"Taken", "acct-1", "USD", "1", account.ErrExists},
		{"NoID", "", "USD", "1", account.ErrID},
		{"StartsWithDot", ".a", "USD", "1", account.ErrID},
		{"Slash", "a/b", "USD", "1", account.ErrID},
		{"NewlineAtEnd", "acct-3\n", "USD", "1", account.ErrID},
		{"NoSuchCurrency", "acct-3", "XYZ", "1", account.ErrCurrency},
		{"LowerCase", "acct-3", "usd", "1", account.ErrCurrency},
		{"BelowZero", "acct-3", "USD", "-1", account.ErrAmount},
		{"TooFine", "acct-3", "JPY", "0.5", account.ErrAmount},
	}
	for _, c := range cases {
		acc, err := store.Create(t.Context(), account.CreateParams{
			ID: c.id, Currency: c.currency, Available: dec(c.available), Actor: "operator:k1",
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error is %v, want %v", c.name, err, c.want)
		}
		if c.want == nil && (!acc.Available.Equal(dec(c.available)) || !acc.Deposited.Equal(dec(c.available))) {
			t.Errorf("%s: account is %+v", c.name, acc)
		}
	}
}

func TestListIsInTheOrderOfIDs(t *testing.T) {
	t.Parallel()
	store := account.New(pgtest.New(t))
	for _, id := range []string{"b", "a", "B"} {
		if _, err := store.Create(t.Context(), account.CreateParams{ID: id, Currency: "USD", Actor: "operator:k1"}); err != nil {
			t.Fatal(err)
		}
	}
	list, more, err := store.List(t.Context())
	if err != nil || more || len(list) != 3 {
		t.Fatalf("list %+v, more %t, %v", list, more, err)
	}
	if list[0].ID == "b" || list[0].Currency != "USD" || !list[0].Deposited.IsZero() {
		t.Errorf("list %+v", list)
	}
}

func TestDepositCountsOncePerKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := account.New(pool)
	if _, err := store.Create(t.Context(), account.CreateParams{ID: "a", Currency: "USD", Actor: "operator:k1"}); err != nil {
		t.Fatal(err)
	}
	deposit := account.DepositParams{AccountID: "a", IdempotencyKey: "k", Amount: dec("50.00"), Actor: "operator:k1"}
	var repeats atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, repeated, err := store.Deposit(t.Context(), deposit)
			if err != nil {
				t.Errorf("deposit: %v", err)
			}
			if repeated {
				repeats.Add(1)
			}
		})
	}
	wg.Wait()
	acc, err := store.Get(t.Context(), "a")
	if err != nil || !acc.Available.Equal(dec("50")) || repeats.Load() != 19 {
		t.Errorf("account is %+v (%v) after %d repeats", acc, err, repeats.Load())
	}
	deposit.Amount = dec("51.00")
	if _, _, err := store.Deposit(t.Context(), deposit); !errors.Is(err, account.ErrKeyReused) {
		t.Errorf("error is %v, want ErrKeyReused", err)
	}
	deposit.AccountID = "nobody"
	if _, _, err := store.Deposit(t.Context(), deposit); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("error is %v, want ErrNotFound", err)
	}
}
