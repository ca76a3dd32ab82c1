// SPDX-License-Identifier: Apache-2.0

// Package telemetry is what an operator sees of a process: the log, the metrics
// and the health port. It knows nothing of what the process does; each package
// registers its own metrics on the registry it is given.
//
//go:generate go run ./gen
package telemetry
