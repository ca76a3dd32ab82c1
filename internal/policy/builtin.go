// SPDX-License-Identifier: Apache-2.0

package policy

// version changes whenever the built-in rules or the meaning of rules do, so that
// the hash of the policy does.
const version = 1

const storageGroup = "spdx.softwarecomposition.kubescape.io"

type groupResource struct{ group, resource string }

var secrets = groupResource{"", "secrets"}

// names is a path of members.
func names(list ...string) path {
	p := make(path, len(list))
	for i, name := range list {
		p[i] = step{name: name}
	}
	return p
}

// builtin gives the rules of the default policy for a kind, but for the one on
// environment values, which the editor knows.
func builtin(link Link, k groupResource) []edit {
	edits := []edit{
		{path: names("metadata", "managedFields"), rank: rankDrop},
		{path: names("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"), rank: rankDrop},
		{path: names("metadata", "annotations", "kubescape.io/sync-checksum"), rank: rankDrop},
	}
	omit := rankDrop
	if link == LinkV1 {
		omit = rankNull
	}
	switch k {
	case groupResource{"", "nodes"}:
		edits = append(edits, edit{path: names("status", "conditions"), rank: omit})
	case secrets:
		for _, name := range []string{"data", "stringData"} {
			edits = append(edits, edit{path: append(names(name), step{kind: anyMember}), rank: rankBuiltinMask, strict: true})
		}
	case groupResource{storageGroup, "sbomsyfts"}:
		if link != LinkV1 {
			edits = append(edits, syft(omit)...)
		}
	case groupResource{storageGroup, "sbomsyftfiltereds"}:
		edits = append(edits, syft(omit)...)
	}
	return edits
}

func syft(omit rank) []edit {
	var edits []edit
	for _, name := range []string{"descriptor", "files", "artifactRelationships"} {
		edits = append(edits, edit{path: names("spec", "syft", name), rank: omit})
	}
	return edits
}

// add puts a rule to the state at the root of an object.
func (s *state) add(c *compiled, k groupResource) {
	if c.action == ActionKeep {
		s.addKeep(c)
		return
	}
	at := map[Action]rank{ActionDrop: rankDrop, ActionMask: rankMask, ActionHash: rankHash, ActionReveal: rankReveal}[c.action]
	if c.action == ActionReveal && k == secrets && !c.named(k) {
		return // a * that was written with other kinds in mind shows no Secret
	}
	for _, p := range c.paths {
		s.edits = append(s.edits, edit{path: p, rank: at, salt: c.salt})
	}
}

// addKeep makes one keeping of all paths into the same subtree.
func (s *state) addKeep(c *compiled) {
	index := map[string]int{}
	for _, p := range c.paths {
		root := subtree(p)
		i, ok := index[root.String()]
		if !ok {
			i = len(s.keeps)
			index[root.String()] = i
			s.keeps = append(s.keeps, keeping{root: root})
		}
		s.keeps[i].paths = append(s.keeps[i].paths, p[len(root):])
	}
}
