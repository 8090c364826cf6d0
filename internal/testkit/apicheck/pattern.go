package apicheck

import (
	"regexp/syntax"
	"strings"
)

// longest bounds what an open repetition draws.
const longest = 12

// matching draws a text that a pattern of the description matches.
func (g *Generator) matching(pattern string) string {
	read, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	var out strings.Builder
	g.write(&out, read)
	return out.String()
}

func (g *Generator) write(out *strings.Builder, r *syntax.Regexp) {
	switch r.Op {
	case syntax.OpLiteral:
		out.WriteString(string(r.Rune))
	case syntax.OpCharClass:
		n := g.IntN(len(r.Rune) / 2)
		low, high := r.Rune[2*n], r.Rune[2*n+1]
		out.WriteRune(low + rune(g.IntN(int(high-low)+1)))
	case syntax.OpConcat, syntax.OpCapture:
		for _, part := range r.Sub {
			g.write(out, part)
		}
	case syntax.OpAlternate:
		g.write(out, pick(g, r.Sub))
	case syntax.OpQuest:
		g.repeat(out, r.Sub[0], 0, 1)
	case syntax.OpStar:
		g.repeat(out, r.Sub[0], 0, longest)
	case syntax.OpPlus:
		g.repeat(out, r.Sub[0], 1, longest)
	case syntax.OpRepeat:
		g.repeat(out, r.Sub[0], r.Min, max(r.Min, r.Max))
	default: // the beginning, the end, and what our patterns do not have
	}
}

func (g *Generator) repeat(out *strings.Builder, what *syntax.Regexp, least, most int) {
	for range least + g.IntN(most-least+1) {
		g.write(out, what)
	}
}
