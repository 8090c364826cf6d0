// Command clientcheck buys with a client that was generated from the API's description,
// and holds each answer against what the description made of it. scripts/client.sh
// generates the client and runs this.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"clientcheck/holdfast"
)

// patience bounds the whole check; it takes a second.
const patience = 30 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := check(ctx, os.Getenv("HOLDFAST_URL"), os.Getenv("HOLDFAST_API_KEY")); err != nil {
		fmt.Fprintln(os.Stderr, "generated client:", err)
		os.Exit(1)
	}
}

func check(ctx context.Context, url, key string) error {
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}
	api, err := holdfast.NewClientWithResponses(url, holdfast.WithRequestEditorFn(authorize))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	for _, step := range []struct {
		name string
		run  func(context.Context, *holdfast.ClientWithResponses) error
	}{
		{"buy and read", buyAndRead},
		{"be rejected", beRejected},
		{"be wrong", beWrong},
	} {
		if err := step.run(ctx, api); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println("generated client:", step.name)
	}
	return nil
}

func buyAndRead(ctx context.Context, api *holdfast.ClientWithResponses) error {
	bought, err := buy(ctx, api, "AAPL", "10")
	if err != nil {
		return err
	}
	if bought.JSON201 == nil {
		return unexpected("a purchase in a 201", bought.HTTPResponse, bought.Body)
	}
	p := *bought.JSON201
	if err := purchase(bought.Body, p, holdfast.PurchaseOutcomeCompleted, holdfast.StatusCOMPLETED); err != nil {
		return err
	}
	if where := bought.Headers201.Location; !strings.HasSuffix(where, p.Id.String()) {
		return fmt.Errorf("location %q does not lead to %s", where, p.Id)
	}
	read, err := api.GetPurchaseWithResponse(ctx, p.Id.String(), nil)
	if err != nil {
		return err
	}
	if read.JSON200 == nil || read.Headers200.ETag == "" {
		return unexpected("a purchase with an ETag in a 200", read.HTTPResponse, read.Body)
	}
	if read.JSON200.Id != p.Id {
		return fmt.Errorf("read purchase %s, want %s", read.JSON200.Id, p.Id)
	}
	return purchase(read.Body, *read.JSON200, holdfast.PurchaseOutcomeCompleted, holdfast.StatusCOMPLETED)
}

func beRejected(ctx context.Context, api *holdfast.ClientWithResponses) error {
	got, err := buy(ctx, api, "REJECT", "10")
	if err != nil {
		return err
	}
	if got.JSON422 == nil {
		return unexpected("a purchase in a 422", got.HTTPResponse, got.Body)
	}
	return purchase(got.Body, *got.JSON422, holdfast.PurchaseOutcomeRejected, holdfast.StatusREJECTED)
}

func beWrong(ctx context.Context, api *holdfast.ClientWithResponses) error {
	got, err := buy(ctx, api, "AAPL", "none")
	if err != nil {
		return err
	}
	problem := got.ApplicationproblemJSON400
	if problem == nil {
		return unexpected("a problem in a 400", got.HTTPResponse, got.Body)
	}
	if problem.Errors == nil || len(*problem.Errors) != 1 || (*problem.Errors)[0].Location != "quantity" {
		return unexpected("one error, at quantity", got.HTTPResponse, got.Body)
	}
	return whole(got.Body, problem)
}

// buy asks for the demo account, which the script's server opens by itself.
func buy(ctx context.Context, api *holdfast.ClientWithResponses, symbol, quantity string) (*holdfast.CreatePurchaseResponse, error) {
	price := "25.00"
	params := &holdfast.CreatePurchaseParams{IdempotencyKey: uuid.NewString()}
	order := holdfast.Submission{AccountId: "demo", Symbol: symbol, Quantity: &quantity, LimitPrice: &price}
	return api.CreatePurchaseWithResponse(ctx, params, order)
}

func purchase(body []byte, p holdfast.Purchase, outcome holdfast.PurchaseOutcome, status holdfast.Status) error {
	if p.Outcome != outcome || p.Status != status {
		return fmt.Errorf("purchase is %s, %s; want %s, %s", p.Outcome, p.Status, outcome, status)
	}
	return whole(body, p)
}

func unexpected(want string, got *http.Response, body []byte) error {
	return fmt.Errorf("want %s, got %s, %s: %s", want, got.Status, got.Header.Get("Content-Type"), body)
}
