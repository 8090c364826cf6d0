package auth

import (
	"context"
	"errors"
	"testing"
	"time"
)

// keyring is a cache whose time and whose database are the test's to move.
type keyring struct {
	*cache[string]
	t     *testing.T
	at    time.Time
	asked int
}

func newKeyring(t *testing.T) *keyring {
	t.Helper()
	k := &keyring{cache: newCache[string](), t: t, at: time.Unix(1_800_000_000, 0)}
	k.now = func() time.Time { return k.at }
	return k
}

// wantAsked reads a key and checks whether the database had to be asked.
func (k *keyring) wantAsked(key string, want bool) {
	k.t.Helper()
	before := k.asked
	_, err := k.get(k.t.Context(), key, func(context.Context) (string, error) {
		k.asked++
		return key, nil
	})
	if asked := k.asked > before; err != nil || asked != want {
		k.t.Errorf("%s: asked %t, want %t; %v", key, asked, want, err)
	}
}

// revalidateWith is one round in which only the named keys are active.
func (k *keyring) revalidateWith(active ...string) {
	k.t.Helper()
	err := k.revalidate(k.t.Context(), func(context.Context, []string) (map[string]string, error) {
		found := map[string]string{}
		for _, key := range active {
			found[key] = key
		}
		return found, nil
	})
	if err != nil {
		k.t.Error(err)
	}
}

// A key stays cached for as long as the database names it among the active ones, and not
// a round longer: it does not matter why it is no longer named.
func TestRevalidatedKeysStayCached(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.wantAsked("good", true)
	k.wantAsked("bad", true)
	for range 600 {
		k.at = k.at.Add(time.Second)
		k.revalidateWith("good", "bad")
		k.wantAsked("good", false)
		k.wantAsked("bad", false)
	}
	k.revalidateWith("good")
	k.wantAsked("good", false)
	k.wantAsked("bad", true)
}

func TestRevalidationReplacesWhatIsCached(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.wantAsked("key", true)
	k.at = k.at.Add(time.Second)
	err := k.revalidate(t.Context(), func(context.Context, []string) (map[string]string, error) {
		return map[string]string{"key": "as it is now"}, nil
	})
	if value, ok := k.fresh("key"); err != nil || !ok || value != "as it is now" {
		t.Errorf("cached %q, %t, %v", value, ok, err)
	}
}

func TestNoEntryOutlivesItsMaximumAge(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.wantAsked("key", true)
	k.at = k.at.Add(cacheFor)
	k.wantAsked("key", false)
	k.at = k.at.Add(time.Millisecond)
	unavailable := errors.New("unavailable")
	err := k.revalidate(t.Context(), func(context.Context, []string) (map[string]string, error) { return nil, unavailable })
	if !errors.Is(err, unavailable) {
		t.Errorf("error is %v", err)
	}
	k.wantAsked("key", true)
}

// A round says nothing about a key that was loaded, or dropped, while it ran.
func TestRevalidationLeavesWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.wantAsked("loaded", true)
	k.wantAsked("dropped", true)
	err := k.revalidate(t.Context(), func(context.Context, []string) (map[string]string, error) {
		k.at = k.at.Add(time.Millisecond)
		k.drop("loaded")
		k.wantAsked("loaded", true)
		k.drop("dropped")
		return map[string]string{"dropped": "dropped"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	k.wantAsked("loaded", false)
	k.wantAsked("dropped", true)
}

func TestUnusedKeysAreNotRevalidated(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.wantAsked("used", true)
	k.wantAsked("unused", true)
	for range 2 * idleFor / time.Second {
		k.at = k.at.Add(time.Second)
		k.revalidateWith("used", "unused")
		k.wantAsked("used", false)
	}
	if keys := k.inUse(); len(keys) != 1 || keys[0] != "used" {
		t.Errorf("revalidated: %q", keys)
	}
}
