package statement

import "context"

// Turn makes one turn of the loop.
func (m *Matcher) Turn(ctx context.Context) error { return m.turn(ctx) }
