package app

import (
	"testing"
	"time"

	"holdfast/internal/config"
)

// HOLDFAST_BROKER_IDEMPOTENT=false holds for every adapter.
func TestAlpacaThatIsNotIdempotent(t *testing.T) {
	t.Parallel()
	adapter, err := newAlpaca(config.Broker{
		Name: "alpaca:paper", Kind: "alpaca", Token: "id:secret", Timeout: time.Second, KeyRetention: time.Hour, TimeInForce: "ioc",
	})
	if err != nil || adapter.Capabilities().Idempotent || adapter.Capabilities().Name != "alpaca:paper" {
		t.Errorf("adapter can %+v, %v", adapter.Capabilities(), err)
	}
}
