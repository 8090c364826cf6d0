// Package config parses and checks every setting of Holdfast: one table of names, defaults
// and descriptions, one reader that reports everything that is wrong in one line, and one
// place for the settings that contradict each other. A secret never appears in an error.
//
// It opens nothing and starts nothing. cmd/holdfast, internal/app and bench import it.
package config
