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
	k.vouchFor()
	return k
}

// wantAsked reads a key and reports whether the database had to be asked.
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

func (k *keyring) vouchFor(bad ...string) {
	k.t.Helper()
	if err := k.revalidate(k.t.Context(), func(context.Context) ([]string, error) { return bad, nil }); err != nil {
		k.t.Error(err)
	}
}

// Keys are believed for as long as the database says each second which ones are not to be.
func TestVouchedKeysAreBelieved(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.wantAsked("good", true)
	k.wantAsked("bad", true)
	for range 600 {
		k.at = k.at.Add(time.Second)
		k.vouchFor()
	}
	k.wantAsked("good", false)
	k.vouchFor("bad")
	k.wantAsked("good", false)
	k.wantAsked("bad", true)
}

func TestUnvouchedKeysAreAskedFor(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.wantAsked("key", true)
	k.at = k.at.Add(cacheFor)
	k.wantAsked("key", false)
	k.at = k.at.Add(time.Millisecond)
	away := errors.New("away")
	if err := k.revalidate(t.Context(), func(context.Context) ([]string, error) { return nil, away }); !errors.Is(err, away) {
		t.Errorf("error is %v", err)
	}
	k.wantAsked("key", true)
}

// A vouching says nothing of a key that was being asked for when it began: the answer may
// be from before the revocation that the vouching found nothing to delete for.
func TestAKeyUnderWayIsNotVouchedFor(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	_, err := k.get(t.Context(), "key", func(context.Context) (string, error) {
		k.at = k.at.Add(cacheFor)
		k.vouchFor("key")
		k.at = k.at.Add(time.Millisecond)
		return "key", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	k.wantAsked("key", true)
}

// After a silence the revocations of its first part would go unseen.
func TestSilenceForgetsAll(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.wantAsked("key", true)
	k.at = k.at.Add(revalidateWindow)
	k.vouchFor()
	k.wantAsked("key", true)
}
