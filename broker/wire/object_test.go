package wire_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"holdfast/broker/wire"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body, want string
		ok               bool
	}{
		{"Plain", `{"a":1}`, `1`, true},
		{"Spaces", " {\"a\" : 1 }\r\n", `1`, true},
		{"ByteOrderMark", "\ufeff{\"a\":1}", `1`, true},
		{"Escaped", `{"\u0061":1}`, `1`, true},
		{"Absent", `{"A":1}`, ``, true},
		{"UnknownTwice", `{"x":1,"x":2,"a":1}`, `1`, true},
		{"UnknownNotUTF8", "{\"x\xff\":\"\xff\",\"a\":1}", `1`, true},
		{"UnknownHalfSurrogate", `{"x":"\ud800","\udc00":1,"a":1}`, `1`, true},
		{"UnknownNested", `{"x":{"a":2,"a":3,"y":["\udfff"]},"a":1}`, `1`, true},
		{"UnknownHuge", `{"x":"` + strings.Repeat("x", 1<<20) + `","a":1}`, `1`, true},
		{"Twice", `{"a":1,"a":1}`, `1`, false},
		{"TwiceEscaped", `{"a":1,"\u0061":1}`, `1`, false},
		{"TwoMarks", "\ufeff\ufeff{\"a\":1}", ``, false},
		{"Empty", ``, ``, false},
		{"Null", `null`, ``, false},
		{"Array", `[{"a":1}]`, ``, false},
		{"String", `"{}"`, ``, false},
		{"Cut", `{"a":1`, `1`, false},
		{"CutMember", `{"a"`, ``, false},
		{"UnknownMalformed", `{"a":1,"x":NaN}`, `1`, false},
		{"TrailingComma", `{"a":1,}`, `1`, false},
		{"Followed", `{"a":1}{}`, `1`, false},
		{"FollowedByMark", "{\"a\":1}\ufeff", `1`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var a jsontext.Value
			err := wire.Object([]byte(c.body), map[string]*jsontext.Value{"a": &a})
			if (err == nil) != c.ok || string(a) != c.want {
				t.Errorf("%q, %v; want %q, ok %v", a, err, c.want, c.ok)
			}
		})
	}
}

func TestArray(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`[]`: 0, "\ufeff[1, {\"x\":1,\"x\":2}]": 2, `[1,2,3]`: 3,
		``: -1, `{}`: -1, `[1`: -1, `[1][2]`: -1, `[1,]`: -1, `null`: -1,
	} {
		elements, err := wire.Array([]byte(body))
		if (err == nil) != (want >= 0) || (err == nil && len(elements) != want) {
			t.Errorf("%s: %d elements, %v", body, len(elements), err)
		}
	}
}

func FuzzObject(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, "\ufeff{}", `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var a jsontext.Value
		if err := wire.Object(body, map[string]*jsontext.Value{"a": &a}); err != nil {
			return
		}
		if _, err := wire.Array(append(append([]byte{'['}, strings.TrimPrefix(string(body), "\ufeff")...), ']')); err != nil {
			t.Fatalf("%q is an object, but not an array's element: %v", body, err)
		}
	})
}
