package broker

import "errors"

// ErrCannotList is returned by [Lister.List] if the broker does not have a list of orders,
// although its adapter could read one.
var ErrCannotList = errors.New("the broker has no list of orders")
