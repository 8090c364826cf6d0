package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// brokersFile is HOLDFAST_BROKERS_FILE: several named brokers instead of the one that the
// environment names.
type brokersFile struct {
	Default string              `yaml:"default"`
	Brokers []map[string]string `yaml:"brokers"`
}

// entry is one broker of the file. Its keys are the settings' names in lower case without
// HOLDFAST_BROKER_ or HOLDFAST_; what it leaves out comes from the environment.
type entry struct {
	name   string
	values map[string]string
}

// The keys that are no settings of the environment.
var entryKeys = []string{"name", "kind", "ca_file", "cert_file", "key_file", "proxy"}

// identity are the settings that say which broker is meant: a file takes none of them from
// the environment.
var identity = []string{
	"HOLDFAST_BROKER", "HOLDFAST_BROKER_NAME", "HOLDFAST_BROKER_URL", "HOLDFAST_BROKER_TOKEN",
	"HOLDFAST_BROKER_TOKEN_FILE",
}

// readBrokers reads the brokers into c. It returns the variables that the brokers file
// refers to.
func readBrokers(r *reader, c *Config) (references []string) {
	path := r.str("HOLDFAST_BROKERS_FILE")
	if path == "" {
		name := r.str("HOLDFAST_BROKER_NAME")
		b := readBroker(r, r.choice("HOLDFAST_BROKER", kinds...), name)
		checkName(r, "HOLDFAST_BROKER_NAME", b.Name)
		c.Brokers, c.Broker = []Broker{b}, b
		return nil
	}
	for _, name := range identity {
		if r.env[name] != "" {
			r.errorf("%s cannot be combined with HOLDFAST_BROKERS_FILE", name)
		}
	}
	file, err := parseBrokersFile(path)
	if err != nil {
		r.errorf("HOLDFAST_BROKERS_FILE: %s", err)
		return nil
	}
	for _, values := range file.Brokers {
		e := &entry{values["name"], values}
		c.Brokers = append(c.Brokers, e.read(r))
		references = append(references, e.references()...)
	}
	c.Broker = defaultBroker(r, file.Default, c.Brokers)
	return references
}

func parseBrokersFile(path string) (file brokersFile, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return file, err
	}
	if err := yaml.Load(text, &file, yaml.WithKnownFields()); err != nil {
		return file, fmt.Errorf("%s: %s", filepath.Base(path), strings.Join(strings.Fields(err.Error()), " "))
	}
	if len(file.Brokers) == 0 {
		return file, fmt.Errorf("%s names no broker", filepath.Base(path))
	}
	return file, nil
}

func defaultBroker(r *reader, name string, brokers []Broker) Broker {
	seen := map[string]bool{}
	for _, b := range brokers {
		if seen[b.Name] {
			r.errorf("HOLDFAST_BROKERS_FILE: the name %q appears more than once", b.Name)
		}
		seen[b.Name] = true
	}
	if name == "" {
		return brokers[0]
	}
	for _, b := range brokers {
		if b.Name == name {
			return b
		}
	}
	r.errorf("HOLDFAST_BROKERS_FILE: default: no broker is named %q", name)
	return brokers[0]
}

func (e *entry) read(r *reader) Broker {
	checkName(r, "HOLDFAST_BROKERS_FILE: name", e.name)
	kind := e.values["kind"]
	if !slices.Contains(kinds, kind) {
		r.errorf("HOLDFAST_BROKERS_FILE: broker %q: kind is %q, must be one of %s", e.name, kind, strings.Join(kinds, ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(e.values)) {
		e.checkKey(r, key)
	}
	r.broker = e
	b := readBroker(r, kind, e.name)
	r.broker = nil
	b.CAFile, b.CertFile, b.KeyFile, b.Proxy = e.values["ca_file"], e.values["cert_file"], e.values["key_file"], e.values["proxy"]
	e.checkTLS(r, b)
	return b
}

// checkKey refuses what is no setting of a broker, and a secret in the file itself.
func (e *entry) checkKey(r *reader, key string) {
	if slices.Contains(entryKeys, key) {
		return
	}
	for _, s := range settings {
		name := s.brokerKey()
		switch {
		case !s.perBroker():
		case key == name && s.secret():
			r.errorf("HOLDFAST_BROKERS_FILE: broker %q: give %s_env or %s_file instead of %s", e.name, name, name, name)
			return
		case key == name, s.secret() && (key == name+"_env" || key == name+"_file"):
			return
		}
	}
	r.errorf("HOLDFAST_BROKERS_FILE: broker %q: unknown key %s", e.name, key)
}

func (e *entry) checkTLS(r *reader, b Broker) {
	if (b.CertFile == "") != (b.KeyFile == "") {
		r.errorf("HOLDFAST_BROKERS_FILE: broker %q: cert_file and key_file need each other", e.name)
	}
	if b.Proxy != "" && !isHTTPURL(b.Proxy) {
		r.errorf("HOLDFAST_BROKERS_FILE: broker %q: proxy is not an http or https URL", e.name)
	}
}

// value finds a setting in the entry; ok is false if the environment decides.
func (e *entry) value(r *reader, s setting) (value string, ok bool) {
	key := s.brokerKey()
	if !s.perBroker() {
		return "", false
	}
	if !s.secret() {
		value = strings.TrimSpace(e.values[key])
		return value, value != "" || slices.Contains(identity, s.name)
	}
	if name := e.values[key+"_env"]; name != "" {
		if r.env[name] == "" {
			r.errorf("%s_env: the variable %s is not set", r.label(s.name), name)
		}
		return strings.TrimSpace(r.env[name]), true
	}
	if path := e.values[key+"_file"]; path != "" {
		return r.secretIn(path, r.label(s.name)+"_file"), true
	}
	return "", slices.Contains(identity, s.name)
}

// references are the variables that the entry's secrets come from.
func (e *entry) references() (names []string) {
	for key, name := range e.values {
		if strings.HasSuffix(key, "_env") {
			names = append(names, name)
		}
	}
	return names
}
