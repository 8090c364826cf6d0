package localpg

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestFindNamesWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := find(t.Context(), ourselves(), 0, []string{t.TempDir()})
	if !errors.Is(err, ErrNoBinaries) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %v", err)
	}
}

func TestFindKeepsToTheMajorOfTheData(t *testing.T) {
	t.Parallel()
	as, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	dirs := candidates(t.Context())
	found, err := find(t.Context(), as, 0, dirs)
	if err != nil {
		t.Fatal(err)
	}
	same, err := find(t.Context(), as, found.major, dirs)
	if err != nil || same != found {
		t.Errorf("found %v, %v", same, err)
	}
	if _, err := find(t.Context(), as, 99, dirs); err == nil || !strings.Contains(err.Error(), "Postgres 99") {
		t.Errorf("error is %v", err)
	}
}

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	dirs := []string{"/usr/lib/postgresql/9.6/bin", "/opt/postgresql@17/bin", "/usr/lib/postgresql/18/bin"}
	slices.SortStableFunc(dirs, newest)
	if dirs[0] != "/usr/lib/postgresql/18/bin" || dirs[2] != "/usr/lib/postgresql/9.6/bin" {
		t.Errorf("order is %v", dirs)
	}
}
