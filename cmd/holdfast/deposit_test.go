package main

import (
	"strings"
	"testing"

	"holdfast/internal/testkit/pgtest"
)

// The key of a deposit is printed before its result, so that a deposit whose result was lost
// can be repeated without depositing twice.
func TestDepositCanBeRepeatedByItsPrintedKey(t *testing.T) {
	t.Parallel()
	settings := []string{"HOLDFAST_DATABASE_URL=" + pgtest.NewURL(t)}
	must(t, settings, "account", "create", "--id", "acct-1", "--currency", "USD")
	deposit := []string{"account", "deposit", "--id", "acct-1", "--amount", "50.00", "--json"}
	first := command(t, settings, deposit...)
	_, rest, found := strings.Cut(first.err, "deposit key: ")
	key, _, _ := strings.Cut(rest, " ")
	if first.code != exitDone || !found || key == "" {
		t.Fatalf("exit %d: %s%s", first.code, first.out, first.err)
	}
	if again := must(t, settings, append(deposit, "--key", key)...); !strings.Contains(again, `"available":"50.00"`) {
		t.Errorf("repeated: %s", again)
	}
	if r := command(t, settings, append(deposit, "--key", "a", "--idempotency-key", "b")...); r.code != exitUsage {
		t.Errorf("two keys: exit %d", r.code)
	}
}
