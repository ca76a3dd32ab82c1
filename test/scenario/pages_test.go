// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/config"
	"synchronizer/test/kubetest"
)

// pages are those that tell people what to type and to look for.
var pages = []string{"migration.md", "operations.md"}

const docs = "../../docs"

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, name))
	require.NoError(t, err)
	return string(text)
}

var (
	codeSpans  = regexp.MustCompile("`([^`\n]+)`")
	keys       = regexp.MustCompile(`^(backend|inCluster|httpEndpoint|ingester|store|api|embedded|kafkaConfig|natsConfig|pulsarConfig|messageQueue)(\.[a-zA-Z]+)+$`)
	series     = regexp.MustCompile(`synchronizer_[a-z_]+[a-z]`)
	jsonBlocks = regexp.MustCompile("(?ms)^ *```json\n(.*?)^ *```")
	consoles   = regexp.MustCompile("(?ms)^ *```console\n(.*?)^ *```")
	links      = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// TestPagesNameWhatExists: keys, metrics, reasons, tests and files that the pages
// name are there.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, field := range config.Fields() {
		parts := strings.Split(field.Path, ".")
		for i := range parts { // a page may leave out the section it speaks of
			known[strings.Join(parts[i:], ".")] = true
		}
	}
	source := sources(t)
	for _, name := range pages {
		text := page(t, name)
		for _, span := range codeSpans.FindAllStringSubmatch(text, -1) {
			if keys.MatchString(span[1]) && !strings.Contains(span[1], ".md") && !strings.HasSuffix(span[1], ".db") {
				require.True(t, known[span[1]], "%s: there is no key %s", name, span[1])
			}
			if strings.HasPrefix(span[1], "Test") {
				require.Contains(t, source, "func "+span[1]+"(t", name)
			}
		}
		for _, metric := range series.FindAllString(text, -1) {
			short := strings.TrimPrefix(metric, "synchronizer_agent_") // made from a prefix
			require.True(t, strings.Contains(source, `"`+metric) || strings.Contains(source, `"`+short+`"`), "%s: there is no metric %s", name, metric)
		}
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			file := filepath.Join(docs, link[1])
			target, err := os.ReadFile(file)
			require.NoError(t, err, name)
			if link[2] != "" {
				require.Contains(t, anchors(string(target)), link[2], "%s: a heading of %s", name, link[1])
			}
		}
	}
	for _, reason := range []synchronizer.DropReason{
		synchronizer.DropRefused, synchronizer.DropDeadLetter, synchronizer.DropTooLarge, synchronizer.DropBacklog, synchronizer.DropDisconnected, synchronizer.DropUnheard,
	} {
		require.Contains(t, page(t, "operations.md"), "`"+string(reason)+"`")
	}
}

// sources is all Go text of the program, and of these tests.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, root := range []string{"../../internal", "../../cmd", "."} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}))
	}
	return all.String()
}

// anchors are those that headings get.
func anchors(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			list = append(list, "#"+strings.ReplaceAll(plain, " ", "-"))
		}
	}
	return list
}

// TestPagesCanBeTyped: configurations of the pages load without a word about unknown
// keys, and their commands do what is said, on files of the samples.
func TestPagesCanBeTyped(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	work := t.TempDir()
	for name, sample := range map[string]string{"server": "server-embedded", "client": "client", "server-postgres": "server-postgres"} {
		require.NoError(t, os.CopyFS(filepath.Join(work, name), os.DirFS(filepath.Join("../../configuration", sample))))
	}
	require.NoError(t, os.WriteFile(filepath.Join(work, "accessKey"), []byte("0123456789abcdefghij"), 0o600))
	typed := map[string]bool{}
	for _, name := range pages {
		text := page(t, name)
		for _, block := range jsonBlocks.FindAllStringSubmatch(text, -1) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(block[1]), 0o600))
			_, warnings, err := config.LoadServer(config.Env{ConfigDir: dir})
			require.NoError(t, err, "%s: %s", name, block[1])
			require.Empty(t, warnings, "%s: %s", name, block[1])
		}
		for _, block := range consoles.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(block[1]) {
				command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ synchronizer ")
				require.True(t, ok, line)
				run(t, work, strings.Fields(command))
				typed[command] = true
			}
		}
		// Commands in the text: they exist, with these flags.
		for _, span := range codeSpans.FindAllStringSubmatch(text, -1) {
			if command, ok := strings.CutPrefix(span[1], "synchronizer "); ok {
				help(t, strings.Fields(command))
				typed[command] = true
			}
		}
	}
	require.NotEmpty(t, typed)
}

// run types a command. One that needs a PostgreSQL is asked for its help instead.
func run(t *testing.T, dir string, args []string) {
	t.Helper()
	if slices.Contains(args, "./server-postgres") {
		help(t, args)
		return
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, bareEnvironment()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "synchronizer %s\n%s", strings.Join(args, " "), out)
	require.NotContains(t, string(out), "unknown key")
}

// help looks whether a command exists and has the flags.
func help(t *testing.T, args []string) {
	t.Helper()
	words := args
	if at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") || strings.ToUpper(arg) == arg }); at >= 0 {
		words = args[:at]
	}
	cmd := exec.Command(program, append(slices.Clone(words), "--help")...)
	cmd.Env = bareEnvironment()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "synchronizer "+strings.Join(words, " "), "the command exists")
	for _, arg := range args {
		if strings.HasPrefix(arg, "--") {
			require.Contains(t, string(out), arg)
		}
	}
}
