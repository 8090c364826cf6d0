package main

import (
	"errors"

	"holdfast/client"
	"holdfast/internal/config"
)

// connection has the flags of the commands that use the API. The key comes from the environment
// only: a flag would show it to every user of the machine.
type connection struct {
	URL  string `placeholder:"URL" help:"HOLDFAST_URL, ${default_url} by default. The key is HOLDFAST_API_KEY."`
	JSON bool   `help:"Print JSON."`
}

func (c connection) open(a *cli) (*client.Client, error) {
	settings, err := config.LoadClient(a.env, c.URL)
	if err != nil {
		return nil, err
	}
	api, err := client.New(client.Config{URL: settings.URL, Key: settings.Key})
	if err != nil {
		return nil, &usageError{err.Error()}
	}
	return api, nil
}

// asUsageError turns the API's invalid-request into a usage error, because its input is the command
// line.
func asUsageError(err error) error {
	var problem *client.Problem
	if errors.As(err, &problem) && problem.Slug() == "invalid-request" {
		return &usageError{err.Error()}
	}
	return err
}
