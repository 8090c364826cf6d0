package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"holdfast/alert"
	"holdfast/internal/config"
)

type alertCommand struct {
	Test alertTestCommand `cmd:"" help:"Send one alert of the type alert.test to the webhook."`
}

type alertTestCommand struct {
	JSON bool `help:"Print JSON."`
}

func (c *alertTestCommand) Run(ctx context.Context, a *cli) error {
	settings, err := config.Load(a.env)
	if err != nil {
		return err
	}
	if settings.WebhookURL == "" {
		return &usageError{"HOLDFAST_ALERT_WEBHOOK_URL is not set: alerts are logged"}
	}
	webhook, err := alert.NewWebhook(settings.WebhookURL, settings.WebhookSecret)
	if err != nil {
		return err
	}
	test := alert.Alert{ID: uuid.New(), Type: "alert.test", CreatedAt: time.Now(), Data: []byte(`{"test":true}`)}
	if err := webhook.Send(ctx, test); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, map[string]any{"webhook_id": test.ID, "delivered": true})
	}
	_, err = fmt.Fprintf(a.out, "delivered as %s\n", test.ID)
	return err
}
