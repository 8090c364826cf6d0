package api

import (
	"net/http"
	"strings"
	"unicode"

	"github.com/go-chi/chi/v5"

	"holdfast/account"
	"holdfast/auth"
	"holdfast/internal/money"
)

const maxNote = 2000

func (a *api) getAccount(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "id")
	if !account.ValidID(id) || !auth.From(r.Context()).May(id) {
		return account.ErrNotFound
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	acc, err := a.Accounts.Get(ctx, id)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, representAccount(acc))
}

func (a *api) createAccount(w http.ResponseWriter, r *http.Request) error {
	b, err := decode(r)
	if err != nil {
		return err
	}
	params := account.CreateParams{
		ID: b.accountID("id", true), Currency: b.currency("currency", true), Actor: auth.From(r.Context()).Actor(),
	}
	params.Available = b.amount("available", currencyDecimals(params.Currency), true).Decimal
	broker, name := a.brokerChoice(b)
	params.Broker, params.BrokerAccount = orEmpty(broker), orEmpty(name)
	if err := b.problem(); err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	acc, err := a.Accounts.Create(ctx, params)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/accounts/"+acc.ID)
	return answer(w, http.StatusCreated, representAccount(acc))
}

// updateAccount changes which broker takes the account's purchases. Purchases that are open
// keep theirs.
func (a *api) updateAccount(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "id")
	if !account.ValidID(id) {
		return account.ErrNotFound
	}
	b, err := decode(r)
	if err != nil {
		return err
	}
	broker, name := a.brokerChoice(b)
	if err := b.problem(); err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	acc, err := a.Accounts.SetBroker(ctx, id, broker, name)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, representAccount(acc))
}

// maxBrokerAccount is above what any broker is known to call an account.
const maxBrokerAccount = 128

// brokerChoice takes the broker that an account's purchases go to and the account's name
// there; nil if absent. Empty ones are the default broker and the account's id.
func (a *api) brokerChoice(b *body) (broker, brokerAccount *string) {
	broker = b.optional("broker", maxBrokerName)
	if broker != nil && *broker != "" && !a.Purchases.Brokers().Serves(*broker) {
		b.fault("broker", "is not the name of a broker that is served here")
	}
	brokerAccount = b.optional("broker_account", maxBrokerAccount)
	if brokerAccount != nil && strings.ContainsFunc(*brokerAccount, unicode.IsControl) {
		b.fault("broker_account", "must not contain control characters")
	}
	return broker, brokerAccount
}

// currencyDecimals is the currency's own number, or the most there is where the
// currency is at fault itself.
func currencyDecimals(code string) int {
	if decimals, known := money.CurrencyDecimals(code); known {
		return int(decimals)
	}
	return maxCurrencyDecimals
}

func (a *api) deposit(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "id")
	if !account.ValidID(id) {
		return account.ErrNotFound
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	b, err := decode(r)
	if err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	currency, err := a.Accounts.Currency(ctx, id)
	if err != nil {
		return err
	}
	params := account.DepositParams{
		AccountID: id, IdempotencyKey: key, Amount: b.required("amount", currencyDecimals(currency)),
		Note: b.text("note", false, maxNote), Actor: auth.From(r.Context()).Actor(),
	}
	if err := b.problem(); err != nil {
		return err
	}
	acc, repeated, err := a.Accounts.Deposit(ctx, params)
	if err != nil {
		return err
	}
	if repeated {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	return answer(w, http.StatusCreated, representAccount(acc))
}
