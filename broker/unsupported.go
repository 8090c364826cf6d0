package broker

// UnsupportedError is what [Broker.Encode] returns for an order that this broker can
// never take. Nothing was sent: the order is wrong input.
type UnsupportedError struct {
	// Field is the order's field that is at fault, as clients name it.
	Field string
	// Message says what is wrong with it, fit for a client.
	Message string
}

func (e *UnsupportedError) Error() string {
	return "encode order: " + e.Field + " " + e.Message
}
