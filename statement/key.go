package statement

import "regexp"

// keyForm recognizes the broker keys of this deployment. An order under any other key was
// placed by somebody else who shares the broker login, and is ignored.
func keyForm(namespace string) *regexp.Regexp {
	prefix := "hf"
	if namespace != "" {
		prefix += `\.` + regexp.QuoteMeta(namespace)
	}
	return regexp.MustCompile(`^` + prefix + `-[0-9a-f]{32}$`)
}
