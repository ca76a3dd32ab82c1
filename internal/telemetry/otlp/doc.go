// SPDX-License-Identifier: Apache-2.0

// Package otlp exports spans to a collector, as the standard OTEL_* variables say:
// OTLP over HTTP with protobuf. It is not otlptracehttp because that links gRPC and
// its gateway without using them, which costs a client that traces nothing 4 MiB.
//
// Nothing that goes wrong with a collector is an error of the process: spans are
// lost, counted and said once.
package otlp
