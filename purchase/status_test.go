package purchase_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testkit/pgtest"
	"holdfast/purchase"
)

// documented reads the table of docs/states.md: what may follow what.
func documented(t *testing.T) map[purchase.Status][]purchase.Status {
	t.Helper()
	text, err := os.ReadFile("../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([A-Z_]+)`")
	table := map[purchase.Status][]purchase.Status{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !word.MatchString(cells[1]) {
			continue
		}
		status := purchase.Status(word.FindStringSubmatch(cells[1])[1])
		table[status] = nil
		for _, match := range word.FindAllStringSubmatch(cells[4], -1) {
			table[status] = append(table[status], purchase.Status(match[1]))
		}
	}
	return table
}

func TestTransitionsAreDocumented(t *testing.T) {
	t.Parallel()
	table := documented(t)
	if len(table) != len(purchase.Statuses()) {
		t.Fatalf("docs/states.md has %d statuses, the code %d", len(table), len(purchase.Statuses()))
	}
	for _, from := range purchase.Statuses() {
		for _, to := range purchase.Statuses() {
			if got, want := from.CanBecome(to), slices.Contains(table[from], to); got != want {
				t.Errorf("%s to %s: the code says %t, docs/states.md %t", from, to, got, want)
			}
		}
	}
}

func TestSchemaKnowsTheSameStatuses(t *testing.T) {
	t.Parallel()
	var check string
	err := pgtest.New(t).QueryRow(t.Context(),
		"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'transaction_history_status_check'").Scan(&check)
	if err != nil {
		t.Fatal(err)
	}
	var inSchema []purchase.Status
	for _, match := range regexp.MustCompile("'([A-Z_]+)'").FindAllStringSubmatch(check, -1) {
		inSchema = append(inSchema, purchase.Status(match[1]))
	}
	inCode := purchase.Statuses()
	slices.Sort(inSchema)
	slices.Sort(inCode)
	if !slices.Equal(inSchema, inCode) {
		t.Errorf("the schema has %v, the code %v", inSchema, inCode)
	}
}

func TestSchemaAllowsTheSameTransitions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, from := range purchase.Statuses() {
		for _, to := range purchase.Statuses() {
			var allowed bool
			err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM status_transition WHERE from_status = $1 AND to_status = $2)",
				from, to).Scan(&allowed)
			if err != nil || allowed != from.CanBecome(to) {
				t.Errorf("%s to %s: the schema says %t (%v), the code %t", from, to, allowed, err, from.CanBecome(to))
			}
		}
	}
}

func TestFinalStatusesLeadNowhere(t *testing.T) {
	t.Parallel()
	for _, from := range purchase.Statuses() {
		leads := slices.ContainsFunc(purchase.Statuses(), from.CanBecome)
		if leads == from.Final() {
			t.Errorf("%s: final is %t, but something follows: %t", from, from.Final(), leads)
		}
	}
}

func TestOutcomeClaimsNothingBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for _, status := range purchase.Statuses() {
		if (status.Outcome() == purchase.OutcomePending) == status.Final() {
			t.Errorf("%s has outcome %s", status, status.Outcome())
		}
	}
}
