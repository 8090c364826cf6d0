package wire

import (
	"net/http"
	"strings"
	"time"
)

// maxRetryAfter is what an absurd Retry-After is reduced to; the caller's own bound is
// lower.
const maxRetryAfter = 365 * 24 * time.Hour

// RetryAfter reads the Retry-After headers: whole seconds, or an HTTP date as seen from
// now. The longest counts; a value that cannot be parsed, or has passed, asks for nothing.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	var longest time.Duration
	for _, value := range header.Values("Retry-After") {
		longest = max(longest, retryAfter(strings.TrimSpace(value), now))
	}
	return longest
}

func retryAfter(value string, now time.Time) time.Duration {
	if seconds, ok := wholeSeconds(value); ok {
		return seconds
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

func wholeSeconds(value string) (time.Duration, bool) {
	if value == "" {
		return 0, false
	}
	var wait time.Duration
	for _, digit := range []byte(value) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		wait = min(10*wait+time.Duration(digit-'0')*time.Second, maxRetryAfter)
	}
	return wait, true
}
