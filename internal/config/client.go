package config

// Client is what the commands that use the API need.
type Client struct{ URL, Key string }

// LoadClient reads the settings of the commands that use the API. A URL given takes
// precedence over HOLDFAST_URL. Its error is an *Error.
func LoadClient(env Env, url string) (Client, error) {
	r := &reader{env: env}
	c := Client{URL: url, Key: r.str("HOLDFAST_API_KEY")}
	if c.Key == "" {
		r.errorf("HOLDFAST_API_KEY is not set")
	}
	if c.URL == "" {
		c.URL = r.httpURL("HOLDFAST_URL")
	}
	checkPlainHTTP(r, r.boolean("HOLDFAST_ALLOW_PLAIN_HTTP"), "HOLDFAST_URL", c.URL)
	return c, r.err()
}

// DefaultURL is the default of HOLDFAST_URL.
func DefaultURL() string {
	known, _ := settingNamed("HOLDFAST_URL")
	return known.fallback
}

// LoadLog reads the log's settings alone. Its error is an *Error.
func LoadLog(env Env) (Log, error) {
	r := &reader{env: env}
	c := readLog(r)
	return c, r.err()
}
