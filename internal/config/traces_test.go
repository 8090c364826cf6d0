package config

import "testing"

func TestTracesAreOffUntilTheyHaveAPlace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set  []string
		want bool
	}{
		"Nothing":  {nil, false},
		"Endpoint": {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://there"}, true},
		"Traces":   {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://there"}, true},
		"Exporter": {[]string{"OTEL_TRACES_EXPORTER=otlp"}, true},
		"None":     {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://there", "OTEL_TRACES_EXPORTER=none"}, false},
		"Disabled": {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://there", "OTEL_SDK_DISABLED=true"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tracing(env(test.set...)); got != test.want {
				t.Errorf("wants traces: %t", got)
			}
		})
	}
}
