// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPeersPage: docs/peers.md has every habit, each with tests, and what it names
// exists.
func TestPeersPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/peers.md")
	require.NoError(t, err)
	var source strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2:
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	}))
	tests := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`).FindAllStringSubmatch(source.String(), -1) {
		tests[found[1]] = true
	}
	named := regexp.MustCompile("`((?:Test|Benchmark)\\w+)`")
	for _, name := range named.FindAllStringSubmatch(string(page), -1) {
		require.True(t, tests[name[1]], "there is no %s", name[1])
	}
	rows := regexp.MustCompile(`(?m)^\| \*\*(\d+)\*\* \|.*$`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 37)
	for i, row := range rows {
		require.Equal(t, fmt.Sprint(i+1), row[1])
		require.Regexp(t, named, row[0], "habit %d is shown by no test", i+1)
	}
}
