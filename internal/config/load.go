// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// fileName is the configuration file in $CONFIG and in /etc/config.
const fileName = "config.json"

// LoadClient resolves the configuration of a client: config.json, environment,
// clusterData.json, the services file and the credential files. The error is [Problems] and
// lists everything that is wrong; warnings come with or without an error.
func LoadClient(env Env) (*Config, Warnings, error) {
	return load(env, RoleClient)
}

// LoadServer resolves the configuration of a server: config.json and environment. Errors are as
// with LoadClient.
func LoadServer(env Env) (*Config, Warnings, error) { return load(env, RoleServer) }

// LoadIngester is LoadServer for an ingester that runs alone.
func LoadIngester(env Env) (*Config, Warnings, error) { return load(env, RoleIngester) }

// LoadUp is LoadServer for everything in one process: without $CONFIG there is no file, and the
// defaults hold.
func LoadUp(env Env) (*Config, Warnings, error) { return load(env, RoleUp) }

func load(env Env, role Role) (*Config, Warnings, error) {
	b := &binder{lines: map[string]int{}}
	c := Default()
	c.Process = Process{Release: env.get("RELEASE"), HelmRelease: env.get("HELM_RELEASE")}
	name, root, problem := find(env, role)
	if problem != nil {
		return nil, nil, Problems{*problem}
	}
	c.Process.File, b.file = name, name
	target := reflect.ValueOf(c).Elem()
	if root != nil {
		b.section(tree, target, root, "")
	}
	b.environment(env, tree, func() reflect.Value { return target })
	if role == RoleUp && c.Ingester.Enabled == nil {
		all := true // whatever the queue: everything is in the one process
		c.Ingester.Enabled = &all
	}
	if role == RoleClient {
		b.resolveClient(env, c)
	} else if text := env.get("MAX_OBJECT_SIZE"); text != "" {
		size, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || size <= 0 {
			b.problem("MAX_OBJECT_SIZE", 0, "must be a number of bytes, 1 or more")
		}
		c.Process.MaxObjectSize = size
	}
	return b.finish(c, role, true)
}

// finish normalizes and validates what has been read.
func (b *binder) finish(c *Config, role Role, complete bool) (*Config, Warnings, error) {
	b.normalize(c)
	problems, warnings := c.check(role, complete)
	wrong := make(map[string]bool) // values that could not be read are not also missing
	for _, p := range b.problems {
		wrong[p.Path] = true
	}
	for _, p := range problems {
		if !wrong[p.Path] {
			b.problems = append(b.problems, b.located(p))
		}
	}
	for _, w := range warnings {
		b.warnings = append(b.warnings, b.located(w))
	}
	if len(b.problems) > 0 {
		return nil, b.warnings, b.problems
	}
	return c, b.warnings, nil
}

// located adds the line of the value that a finding is about, if it is in the file; a key
// that an item of a list lacks has the line of the item.
func (b *binder) located(p Problem) Problem {
	if p.Line != 0 {
		return p
	}
	path := strings.ToLower(p.Path)
	line, ok := b.lines[path]
	for !ok && strings.Contains(path, "]") {
		path = path[:strings.LastIndexAny(path, ".[")]
		line, ok = b.lines[path]
	}
	if ok {
		p.File, p.Line = b.file, line
	}
	return p
}

// find reads config.json: $CONFIG first, then /etc/config. Without $CONFIG, up needs no file.
func find(env Env, role Role) (name string, root *value, problem *Problem) {
	var folders, searched []string
	if folder := env.get("CONFIG"); folder != "" {
		folders = append(folders, folder)
	} else if role == RoleUp {
		return "", nil, nil
	}
	if env.ConfigDir != "" && role != RoleUp {
		folders = append(folders, env.ConfigDir)
	}
	for _, folder := range folders {
		name := filepath.Join(folder, fileName)
		root, err := readObject(name)
		switch {
		case err == nil:
			return name, root, nil
		case !errors.Is(err, fs.ErrNotExist) && !isFile(folder):
			return "", nil, fileProblem(name, name, err)
		case isFile(folder):
			return "", nil, &Problem{Path: "CONFIG", Message: fmt.Sprintf("%s is a file: name the folder that holds %s", folder, fileName)}
		}
		searched = append(searched, name)
	}
	if len(searched) == 0 {
		return "", nil, &Problem{Path: "CONFIG", Message: "missing: name the folder that holds " + fileName, Err: fs.ErrNotExist}
	}
	return "", nil, &Problem{
		Path: "CONFIG", Message: "no configuration file: looked for " + strings.Join(searched, " and "), Err: fs.ErrNotExist,
	}
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// readObject reads a file that holds one JSON object.
func readObject(name string) (*value, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	return parseObject(data)
}

// fileProblem describes a file that cannot be read; path is what the user wrote or set.
func fileProblem(path, name string, err error) *Problem {
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		return &Problem{Path: path, Message: syntax.message, File: name, Line: syntax.line, Err: err}
	}
	message := "reading it: " + reason(err)
	if path != name {
		message = "reading " + name + ": " + reason(err)
	}
	return &Problem{Path: path, Message: message, Err: err}
}

// reason is the cause of a file error without the name, which stands beside it anyway.
func reason(err error) string {
	var fault *fs.PathError
	if errors.As(err, &fault) {
		return fault.Err.Error()
	}
	return err.Error()
}

// normalize replaces values by what the field takes them to mean: non-positive or overflowing
// limits are the defaults, negative intervals are off.
func (b *binder) normalize(c *Config) {
	positive := func(value *int, fallback int) {
		if *value <= 0 {
			*value = fallback
		}
	}
	ttl := func(value *Seconds, fallback Seconds) {
		if d, ok := value.Duration(); !ok || d == 0 {
			*value = fallback
		}
	}
	dedup, replay := &c.InCluster.Deduplication, &c.Backend.Replay
	ttl(&dedup.TTLSeconds, defaultDedupTTLSeconds)
	positive(&dedup.MaxMessages, defaultDedupMessages)
	ttl(&replay.TTLSeconds, defaultReplayTTLSeconds)
	positive(&replay.MaxMessages, defaultReplayMessages)
	positive(&replay.MaxMessagesPerClient, defaultReplayPerClient)
	if replay.MaxBytes <= 0 {
		replay.MaxBytes = defaultReplayBytes
	}
	ttl(&c.Backend.FeaturesProvider.RefreshIntervalSeconds, 3600)
	for i := range c.InCluster.Resources {
		defaultStrategy(&c.InCluster.Resources[i])
	}
	if c.HTTPEndpoint != nil {
		for i := range c.HTTPEndpoint.Resources {
			defaultStrategy(&c.HTTPEndpoint.Resources[i])
		}
	}
	b.intervals(c)
}

func defaultStrategy(r *Resource) {
	if r.Strategy == "" {
		r.Strategy = StrategyCopy
	}
}

// jitterDivisor: an after-connect reconciliation adds up to a fifth of its delay.
const jitterDivisor = 5

func (b *binder) intervals(c *Config) {
	const base = "backend.reconciliationTaskConfig."
	task := &c.Backend.ReconciliationTask
	after := &task.ReconcileAfterConnectSeconds
	if d, ok := after.Duration(); !ok && *after > 0 || ok && d > math.MaxInt64-d/jitterDivisor {
		b.warn(base+"reconcileAfterConnectSeconds", b.lines[strings.ToLower(base+"reconcileAfterConnectSeconds")],
			"too large for the delay plus jitter: ignored")
		*after = 0
	}
	*after = max(*after, 0)
	for _, interval := range []struct {
		path    string
		seconds *Seconds
	}{
		{base + "taskIntervalSeconds", &task.TaskIntervalSeconds},
		{base + "intervalFromConnectionSeconds", &task.IntervalFromConnectionSeconds},
		{"backend.keepAliveTaskConfig.taskIntervalSeconds", &c.Backend.KeepAliveTask.TaskIntervalSeconds},
	} {
		if _, ok := interval.seconds.Duration(); !ok && *interval.seconds > 0 {
			b.problem(interval.path, b.lines[strings.ToLower(interval.path)], "is too large")
		}
		*interval.seconds = max(*interval.seconds, 0)
	}
}
