package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"holdfast/broker"
)

// tracing turns traces on and gives the node the spans that tell a purchase's time: the
// request, and the calls to the broker within it. They are off unless OTEL_ says where
// they go.
type tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// startTraces makes the exporter; it connects when there is something to send, and what
// cannot be sent is dropped.
func (n *node) startTraces(ctx context.Context) error {
	if !n.config.Traces {
		return nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "holdfast"),
		attribute.String("holdfast.role", string(n.role))), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { n.log.Warn("traces not sent", "error", err) }))
	n.traces = &tracing{provider: provider, tracer: provider.Tracer("holdfast")}
	n.onStop("traces", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, tracesStop)
		defer cancel()
		_ = provider.Shutdown(ctx) // the error handler logs what is lost
		return nil
	})
	return nil
}

// tracesStop is what the last spans get to leave in.
const tracesStop = 2 * time.Second

// handle gives each request a span, a child of the caller's where it sent one. Streams
// get none: they have no end to wait for.
func (t *tracing) handle(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return otelhttp.NewHandler(next, "http",
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithFilter(func(r *http.Request) bool { return r.URL.Path != "/v1/events" }),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }))
}

// call gives each exchange with the broker a span.
func (t *tracing) call(to broker.Broker) broker.Broker {
	if t == nil {
		return to
	}
	return keepLister(to, traced{to, t.tracer})
}

type traced struct {
	broker.Broker
	tracer trace.Tracer
}

// Place implements broker.Broker.
func (b traced) Place(ctx context.Context, request broker.Request) broker.Answer {
	ctx, span := b.tracer.Start(ctx, "broker place", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("broker_key", request.Key)))
	return ended(span, b.Broker.Place(ctx, request))
}

// Lookup implements broker.Broker.
func (b traced) Lookup(ctx context.Context, query broker.Query) broker.Answer {
	ctx, span := b.tracer.Start(ctx, "broker lookup", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("broker_key", query.Key)))
	return ended(span, b.Broker.Lookup(ctx, query))
}

func ended(span trace.Span, a broker.Answer) broker.Answer {
	span.SetAttributes(attribute.String("result", string(a.Verdict)), attribute.String("reason", string(a.Reason)),
		attribute.Int("status_code", a.StatusCode))
	span.End()
	return a
}
