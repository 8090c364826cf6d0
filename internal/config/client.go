package config

// Client is what the commands that use the API need.
type Client struct{ URL, Key string }

// LoadClient reads the settings of the commands that use the API. A URL given takes
// precedence over HOLDFAST_URL. Its error is an *Error.
func LoadClient(find Lookup, url string) (Client, error) {
	r := &reader{lookup: find}
	c := Client{URL: url, Key: r.str("HOLDFAST_API_KEY")}
	if c.Key == "" {
		r.errorf("HOLDFAST_API_KEY is not set")
	}
	if c.URL == "" {
		c.URL = r.httpURL("HOLDFAST_URL")
	}
	return c, r.err()
}

// DefaultURL is the default of HOLDFAST_URL.
func DefaultURL() string {
	known, _ := settingNamed("HOLDFAST_URL")
	return known.fallback
}

// LoadLog reads the log's settings alone. Its error is an *Error.
func LoadLog(find Lookup) (Log, error) {
	r := &reader{lookup: find}
	c := readLog(r)
	return c, r.err()
}
