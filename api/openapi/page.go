package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"strings"
)

//go:embed page.html
var pageSource string

// Problem is one row of the table of what can go wrong.
type Problem struct {
	Slug   string
	Status int
	Title  string
}

// Page renders the document for people, without scripts or outside loads. Each problem
// has its slug as an anchor.
func Page(problems []Problem) []byte {
	var out bytes.Buffer
	page := template.Must(template.New("page").Funcs(functions).Parse(pageSource))
	if err := page.Execute(&out, struct {
		Document *document
		Problems []Problem
	}{read(), problems}); err != nil {
		panic(fmt.Errorf("render docs: %w", err))
	}
	return out.Bytes()
}

var functions = template.FuncMap{
	"prose":  prose,
	"upper":  strings.ToUpper,
	"pretty": pretty,
}

func pretty(v any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(v)
	return out.String(), err
}

var code = regexp.MustCompile("`([^`]+)`")

// prose renders the little that our own texts use: paragraphs, indented code, `code`.
func prose(text string) template.HTML {
	var out strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(block, "    ") {
			out.WriteString("<pre>" + html.EscapeString(unindent(block)) + "</pre>")
			continue
		}
		out.WriteString("<p>" + code.ReplaceAllString(html.EscapeString(block), "<code>$1</code>") + "</p>")
	}
	return template.HTML(out.String()) //nolint:gosec // Our own text, escaped above.
}

func unindent(block string) string {
	lines := strings.Split(block, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "    ")
	}
	return strings.Join(lines, "\n")
}
