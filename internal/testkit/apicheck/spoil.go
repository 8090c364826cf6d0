package apicheck

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// oddities are values that mean nothing, too much, or harm.
var invalidValues = []any{
	"", " ", "0", "-1", "+1", "1e9", "NaN", "10", "0.5", "99999999999999999999", "25.00", "x", "\x00", "ä", "\u202e", "\ufffd",
	"'; DROP TABLE account; --", "../../etc/passwd", "%s%n", "${jndi:x}", "١", strings.Repeat("x", 300), nil, true, 0, -1, 1.5, 1e300,
	[]any{}, []any{[]any{}}, map[string]any{}, map[string]any{"a": nil}, "2h", "null", "9223372036854775808",
}

// jsonOddities are values that only their text can be.
var jsonOddities = []string{
	`"\ud800"`, `"\u0000"`, "1e999", "-0", "01", "NaN", "'x'", `"\x"`, "", "nul", `"a` + "\n" + `"`, "\"\xff\"", "[1,]", `{"a":1,"a":2}`,
	strings.Repeat("[", 9000), strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000), `"` + strings.Repeat("x", 5000) + `"`,
}

// oddHeaders are lines that a client, a proxy or a mischief-maker may add.
var oddHeaders = []Field{
	{"Accept", "text/html"}, {"Accept-Encoding", "gzip, br"}, {"Content-Encoding", "gzip"}, {"Content-Type", "text/plain"},
	{"Content-Type", "application/json; charset=latin1"}, {"Content-Type", ";"}, {"Authorization", "Basic YTpi"}, {"Authorization", "Bearer"},
	{"Authorization", "Bearer a.b.c"}, {"Idempotency-Key", "a b"}, {"Idempotency-Key", ""}, {"Idempotency-Key", strings.Repeat("k", 256)},
	{"Idempotency-Key", "schl\xfcssel"}, {"If-None-Match", `W/"`}, {"If-None-Match", "*"}, {"Prefer", "wait=-1"}, {"Prefer", "wait=99999999999"},
	{"Prefer", "respond-async, wait=x; y"}, {"Last-Event-ID", "\xff"}, {"Last-Event-ID", "-1"}, {"X-Request-Id", "a=b\t"}, {"Origin", "https://elsewhere.example"},
	{"Sec-Fetch-Site", "cross-site"}, {"Cookie", "holdfast_session=x; ="}, {"Upgrade", "h2c"}, {"Expect", "100-continue"}, {"X-Forwarded-For", "::1, unknown"},
	{"X-HTTP-Method-Override", "DELETE"}, {"Range", "bytes=0-1"}, {"traceparent", "00-0-0-zz"}, {"X-Long", strings.Repeat("x", 12<<10)},
	{"If-Modified-Since", "tomorrow"}, {"Forwarded", "for="}, {"Content-Length-Not", "1"}, {"TE", "trailers"},
}

var oddMethods = []string{"HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", "PUT", "POST", "GET", "get", "FOO", "PROPFIND"}

// spoilers are what can go wrong with a request, by name. One that finds nothing to
// spoil says so. What is no HTTP any more is no matter of the API's and not among them.
var spoilers = map[string]func(*Generator, *draft) bool{
	"key":            spoilKey,
	"method":         func(g *Generator, d *draft) bool { d.method = pick(g, oddMethods); return true },
	"header":         func(g *Generator, d *draft) bool { d.header = append(d.header, pick(g, oddHeaders)); return true },
	"header missing": dropHeader,
	"header twice":   repeatHeader,
	"path":           spoilPath,
	"query":          spoilQuery,
	"field missing":  dropMember,
	"field twice":    repeatMember,
	"field unknown": func(g *Generator, d *draft) bool {
		return addMember(g, d, Field{fmt.Sprint(pick(g, invalidValues)), text(pick(g, invalidValues))})
	},
	"field odd":    func(g *Generator, d *draft) bool { return setMember(g, d, text(pick(g, invalidValues))) },
	"field broken": func(g *Generator, d *draft) bool { return setMember(g, d, pick(g, jsonOddities)) },
	"body":         spoilBody,
	"body encoded": encodeBody,
	"body chunked": func(_ *Generator, d *draft) bool { d.chunked = true; return true },
}

// Spoilers are the names of all that can be done to a request.
func Spoilers() []string {
	names := make([]string, 0, len(spoilers))
	for name := range spoilers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (g *Generator) mutate(d *draft) {
	for range 20 { // some find nothing
		name := pick(g, Spoilers())
		if spoilers[name](g, d) {
			d.spoilt = append(d.spoilt, name)
			return
		}
	}
}

func spoilKey(g *Generator, d *draft) bool {
	d.header = slices.DeleteFunc(d.header, func(f Field) bool { return f.Name == "Authorization" })
	if key := pick(g, append([]string{g.Keys.Client, g.Keys.Operator, g.Keys.Broker, ""}, g.Keys.Others...)); key != "" {
		d.header = append(d.header, Field{"Authorization", pick(g, []string{"Bearer ", "bearer ", "Bearer  ", "Token "}) + key})
	}
	return true
}

func dropHeader(g *Generator, d *draft) bool {
	at := g.IntN(len(d.header))
	if d.header[at].Name == "Host" { // without it, it is no HTTP/1.1
		return false
	}
	d.header = slices.Delete(slices.Clone(d.header), at, at+1)
	return true
}

func repeatHeader(g *Generator, d *draft) bool {
	again := pick(g, d.header)
	if again.Name == "Host" { // twice, it is no HTTP/1.1
		return false
	}
	d.header = append(d.header, again)
	return true
}

func spoilPath(g *Generator, d *draft) bool {
	d.path = pick(g, []func(string) string{
		func(p string) string { return p + "/" },
		func(p string) string { return p + "/more" },
		func(p string) string { return "/" + p },
		strings.ToUpper,
		func(p string) string { return p + "%00" },
		func(p string) string { return p + "%2F" + "x" },
		func(p string) string { return p + "/../.." },
		func(p string) string { return p + ";a=b" },
		func(p string) string { return p + "%ff%fe" },
		func(p string) string { return p + "/" + strings.Repeat("a", 4000) },
		func(p string) string { return strings.ReplaceAll(p, "s", "%73") },
		func(p string) string { return "http://127.9.9.9:1" + p },
		func(p string) string { return p[:max(1, strings.LastIndexByte(p, '/'))] },
		func(p string) string { return p[:max(1, strings.LastIndexByte(p, '/'))] + "/%20" },
	})(d.path)
	return true
}

func spoilQuery(g *Generator, d *draft) bool {
	d.path += pick(g, []string{
		"?", "??", "?&", "?=", "?%zz", "?a;b", "?limit=", "?status=", "?cursor=", "?account_id=", "?limit=1&limit=2", "?limit=0", "?limit=+5",
		"?status=completed", "?cursor=AAAA", "?account_id=%00", "?ticket=x", "?last_event_id=-1", "?purchase_id=x", "?unknown=1", "?" + strings.Repeat("a=1&", 3000),
	})
	d.query = nil
	return true
}

func dropMember(g *Generator, d *draft) bool {
	if len(d.members) == 0 {
		return false
	}
	at := g.IntN(len(d.members))
	d.members = slices.Delete(slices.Clone(d.members), at, at+1)
	return true
}

func repeatMember(g *Generator, d *draft) bool {
	return len(d.members) > 0 && addMember(g, d, pick(g, d.members))
}

func addMember(g *Generator, d *draft, m Field) bool {
	if d.members == nil {
		return false
	}
	d.members = slices.Insert(slices.Clone(d.members), g.IntN(len(d.members)+1), m)
	return true
}

func setMember(g *Generator, d *draft, json string) bool {
	if len(d.members) == 0 {
		return false
	}
	d.members = slices.Clone(d.members)
	d.members[g.IntN(len(d.members))].Value = json
	return true
}

func spoilBody(g *Generator, d *draft) bool {
	whole := d.request().Body
	if len(whole) == 0 {
		d.body = []byte(`{"a":1}`) // where none is asked for
		return true
	}
	d.body = pick(g, []func([]byte) []byte{
		func(b []byte) []byte { return b[:g.IntN(len(b))] },
		func(b []byte) []byte { return append(bytes.Clone(b), " {}"...) },
		func(b []byte) []byte { return append([]byte("\ufeff"), b...) },
		func(b []byte) []byte { return append([]byte("["), append(bytes.Clone(b), ']')...) },
		func(b []byte) []byte { return append(bytes.Clone(b), bytes.Repeat([]byte(" "), 64<<10)...) },
		func(b []byte) []byte {
			return append(bytes.Clone(b), bytes.Repeat([]byte("\n"), max(0, 64<<10-len(b)))...)
		},
		func([]byte) []byte { return []byte{} },
		func([]byte) []byte { return []byte(text(pick(g, invalidValues))) },
		func([]byte) []byte { return []byte(pick(g, jsonOddities)) },
		func(b []byte) []byte { return flip(g, b) },
	})(whole)
	return true
}

// flip makes one byte another.
func flip(g *Generator, b []byte) []byte {
	b = bytes.Clone(b)
	b[g.IntN(len(b))] = byte(g.IntN(256))
	return b
}

// encodeBody writes the same text as no API of ours takes it.
func encodeBody(g *Generator, d *draft) bool {
	whole := d.request().Body
	if len(whole) == 0 {
		return false
	}
	if g.chance(50) {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, _ = w.Write(whole)
		_ = w.Close()
		d.body, d.header = zipped.Bytes(), append(d.header, Field{"Content-Encoding", "gzip"})
		return true
	}
	d.body = []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(string(whole))) {
		d.body = binary.LittleEndian.AppendUint16(d.body, unit)
	}
	return true
}
