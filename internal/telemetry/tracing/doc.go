// SPDX-License-Identifier: Apache-2.0

// Package tracing makes spans where a message passes: when a client sends it, a
// server or ingester publishes it, an ingester commits it, a server hands it down
// and a client applies it.
//
//	agent.send → queue.publish → ingest.commit
//	queue.publish → relay.hand_down, agent.apply
//
// A span stands for what one batch holds of one trace, never for an object, since
// batches are what all of these work on; so an object costs nothing beside the text
// of its traceparent. Without tracing there is no [Tracer], and what it would wrap
// is not wrapped.
//
// What goes down keeps the traceparent that it has on the queue. A message that is
// handed down again, by another server or after a reconnect, is then the same frame,
// byte for byte, by which clients know it as a repeat.
//
// Whether a trace is recorded is decided where it begins (OTEL_TRACES_SAMPLER). What
// is not recorded carries no traceparent, so the server decides anew about it, as
// it does about what clients without tracing send.
package tracing
