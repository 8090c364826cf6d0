package config

import "strings"

// tracing reports whether the standard OpenTelemetry variables enable tracing. The exporter
// and the sampler read the others on their own.
func tracing(env Env) bool {
	value := func(name string) string { return strings.TrimSpace(env[name]) }
	if strings.EqualFold(value("OTEL_SDK_DISABLED"), "true") || value("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return value("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" ||
		value("OTEL_TRACES_EXPORTER") == "otlp"
}

// checkTraces refuses a malformed endpoint: the exporter would only log it, in its own
// format, and send the traces elsewhere.
func checkTraces(r *reader) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if text := r.env[name]; text != "" && !isHTTPURL(text) {
			r.errorf("%s is not an http or https URL", name)
		}
	}
}
