// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const documentHead = `# Benchmarks

Written by ` + "`synchronizer bench … --document docs/benchmarks.md`" + `; each section by its own
command, which stands in it. A figure is the median of the runs; the last column has
the least and the greatest. Backend and client are processes of their own on the
machine named, together with the API server or its stub.

Absolute figures of a shared machine prove little: look at the load before a run.
`

// WriteDocument puts the report into a Markdown file in place of the section of
// the same benchmark, or at its end. The file is made if it is missing.
func (r *Report) WriteDocument(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(documentHead), nil
	}
	if err == nil {
		err = os.WriteFile(path, []byte(r.into(string(text))), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// into is the document with the report's section.
func (r *Report) into(document string) string {
	start, end := "<!-- bench: "+r.Benchmark+" -->\n", "<!-- end -->\n"
	section := start + "\n" + r.markdown() + "\n" + end
	before, rest, found := strings.Cut(document, start)
	if found {
		if _, after, closed := strings.Cut(rest, end); closed {
			return before + section + after
		}
	}
	return strings.TrimRight(document, "\n") + "\n\n" + section
}
