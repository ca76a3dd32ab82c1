// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Problem is one thing that is wrong, or worth a notice, in a configuration.
type Problem struct {
	// Path is the key as the file writes it ("inCluster.resources[2].strategy"), or the
	// file or environment variable that the problem is about.
	Path string
	// Message says what is wrong and what to do. It never holds the value of a secret.
	Message string
	// File and Line say where the value stands; empty and 0 when it is not from config.json.
	File string
	Line int
	// Err is the cause, nil for most.
	Err error
}

// String is "path: message (config.json:line)".
func (p Problem) String() string {
	text := p.Path + ": " + p.Message
	if p.Line > 0 {
		text += fmt.Sprintf(" (%s:%d)", filepath.Base(p.File), p.Line)
	}
	return text
}

// Problems is the error of a configuration that cannot be used: everything that is wrong with
// it, not only the first. The process should end with exit code 2.
type Problems []Problem

// Error lists the problems, one a line when there are several.
func (p Problems) Error() string {
	if len(p) == 1 {
		return "configuration: " + p[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration has %d problems:", len(p))
	for _, problem := range p {
		b.WriteString("\n  " + problem.String())
	}
	return b.String()
}

// Unwrap returns the causes of the problems that have one.
func (p Problems) Unwrap() []error {
	var causes []error
	for _, problem := range p {
		if problem.Err != nil {
			causes = append(causes, problem.Err)
		}
	}
	return causes
}

// orNil keeps a list without entries from becoming an error that is not nil.
func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Warnings are notices about a configuration that can be used.
type Warnings []Problem

// String lists the warnings, one a line.
func (w Warnings) String() string {
	lines := make([]string, len(w))
	for i, warning := range w {
		lines[i] = warning.String()
	}
	return strings.Join(lines, "\n")
}
