package config

import (
	"os"
	"slices"
	"strings"
)

// Env is the environment's variables by name.
type Env map[string]string

// Environ returns the variables of this process.
func Environ() Env {
	env := Env{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env
}

// unknown returns the HOLDFAST_ variables that are no setting: most likely typing errors
// that would otherwise go unnoticed. The names in allowed are known to someone else.
func (e Env) unknown(allowed []string) []string {
	var unknown []string
	for name := range e {
		if strings.HasPrefix(name, "HOLDFAST_") && !isKnown(name) && !slices.Contains(allowed, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
