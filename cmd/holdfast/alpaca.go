package main

import (
	"errors"

	"holdfast/broker"
)

func newAlpaca(brokerConfig) (broker.Broker, error) {
	return nil, errors.New("this build has no adapter for alpaca")
}
