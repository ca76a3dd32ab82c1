// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"

	"synchronizer/internal/policy"
)

// trialSalt stands for a salt that is in a file of another machine.
const trialSalt = "a salt for trying rules"

const policyPath = "inCluster.policy"

// Policy makes the transform policy for a version of the link: the default one and
// inCluster.policy. It reads the salt files. The error is [Problems].
func (c *Config) Policy(link policy.Link) (*policy.Transform, error) {
	t, problems, _ := c.compilePolicy(link, true)
	return t, problems.orNil()
}

// TrialPolicy is Policy for trying rules on another machine than the client's: a salt
// file that cannot be read is a warning, and hashes are made with another salt.
func (c *Config) TrialPolicy(link policy.Link) (*policy.Transform, Warnings, error) {
	t, problems, warnings := c.compilePolicy(link, false)
	return t, warnings, problems.orNil()
}

// compilePolicy makes the policy; complete is false where a salt file may be elsewhere.
func (c *Config) compilePolicy(link policy.Link, complete bool) (*policy.Transform, Problems, Warnings) {
	var (
		problems Problems
		warnings Warnings
		rules    []policy.Rule
	)
	for i := range c.InCluster.Policy {
		r := &c.InCluster.Policy[i]
		salt, problem := r.salt(fmt.Sprintf("%s[%d]", policyPath, i))
		switch {
		case problem == nil:
		case problem.Err != nil && !complete:
			problem.Message += "; hashes are made with another salt here"
			warnings = append(warnings, *problem)
		default:
			problems = append(problems, *problem)
		}
		rules = append(rules, policy.Rule{
			Match:  policy.Match{Group: r.Match.Group, Resource: r.Match.Resource, Namespaces: r.Match.Namespaces},
			Action: policy.Action(r.Action), Paths: r.Paths, Salt: salt,
		})
	}
	t, wrong := policy.Compile(link, rules)
	for _, w := range wrong {
		p := Problem{Path: policyPath, Message: w.Message}
		if w.Rule >= 0 {
			p.Path = fmt.Sprintf("%s[%d]", policyPath, w.Rule)
		}
		if w.Field != "" {
			p.Path = join(p.Path, w.Field)
		}
		if w.Field == "salt" && c.InCluster.Policy[w.Rule].SaltFile != "" {
			p.Path += "File"
		}
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		return nil, problems, warnings
	}
	return t, nil, warnings
}

// salt gives the salt of a rule. With a problem it gives one that can be used to find
// further problems.
func (r *PolicyRule) salt(path string) ([]byte, *Problem) {
	if r.SaltFile == "" {
		return []byte(r.Salt.Reveal()), nil
	}
	if r.Salt != "" {
		return []byte(trialSalt), &Problem{Path: path + ".saltFile", Message: "the salt is there twice: leave out salt or saltFile"}
	}
	data, err := readFile(r.SaltFile)
	if err != nil {
		return []byte(trialSalt), fileProblem(path+".saltFile", r.SaltFile, err)
	}
	return []byte(strings.TrimSpace(string(data))), nil
}

// policy checks the rules, and warns of those that are about no kind of the client.
func (k *checker) policy() {
	reported := make(map[string]bool)
	for _, p := range k.problems {
		reported[p.Path] = true
	}
	_, problems, warnings := k.config.compilePolicy(policy.LinkV1, k.complete)
	for _, p := range problems {
		if !reported[p.Path] {
			k.problems = append(k.problems, p)
		}
	}
	k.warnings = append(k.warnings, warnings...)
	for i := range k.config.InCluster.Policy {
		if m := &k.config.InCluster.Policy[i].Match; m.Resource != "" && !k.config.carries(m.Group, m.Resource) {
			k.warn(fmt.Sprintf("%s[%d].match", policyPath, i), "is about no kind in inCluster.resources")
		}
	}
}

func overlap(a, b string) bool { return a == b || a == "*" || b == "*" }

// carries reports whether a kind in inCluster.resources matches; each may be *.
func (c *Config) carries(group, resource string) bool {
	for i := range c.InCluster.Resources {
		r := &c.InCluster.Resources[i]
		if overlap(group, r.Group) && overlap(resource, r.Resource) {
			return true
		}
	}
	return false
}
