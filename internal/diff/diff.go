// SPDX-License-Identifier: Apache-2.0

// Package diff compares what a cluster has with what the store has, object by
// object: both as sets of (key, uid, checksum). It reads the cluster afresh and
// shares nothing with the path that filled the store but the rules of what
// leaves a cluster (filter, policy, checksum).
package diff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/filter"
	"synchronizer/internal/patch"
	"synchronizer/internal/policy"
)

// Entry is what must agree of one object.
type Entry struct {
	UID, Checksum string
	// ResourceVersion is known of stored objects. It is not compared.
	ResourceVersion string
}

// Key names an object within one cluster.
type Key struct {
	Kind            synchronizer.Kind
	Namespace, Name string
}

// String is "group/version/resource namespace/name".
func (k Key) String() string { return k.Kind.String() + " " + k.Namespace + "/" + k.Name }

// Set is one side of the comparison.
type Set map[Key]Entry

// Scope is what of a cluster is carried.
type Scope struct {
	Kinds     []synchronizer.Kind
	Filter    *filter.Filter
	Transform *policy.Transform
	// Stored is what the store has; it may be nil. Checksum v1 covers
	// metadata.resourceVersion, but a client does not tell a change of nothing else
	// (managedFields, a node's heartbeat), so an object that is as it is stored but
	// for that agrees.
	Stored Set
}

// Live lists the cluster and makes the set of what should be stored of it. Kinds
// that it does not serve are returned apart.
func Live(ctx context.Context, cluster synchronizer.Cluster, scope Scope) (set Set, absent []synchronizer.Kind, err error) {
	set = Set{}
	for _, kind := range scope.Kinds {
		_, err := cluster.List(ctx, kind, func(o synchronizer.Object) error {
			if o.Err != nil {
				return fmt.Errorf("reading %s %s/%s: %w", kind, o.Namespace, o.Name, o.Err)
			}
			if carried, err := scope.Filter.Allows(kind, o.Namespace, o.Body); err != nil || !carried {
				return err
			}
			body, err := scope.Transform.Apply(nil, kind.Group, kind.Resource, o.Namespace, o.Body)
			if err != nil {
				return fmt.Errorf("transforming %s %s/%s: %w", kind, o.Namespace, o.Name, err)
			}
			sum, err := checksum.ObjectV1(body)
			if err != nil {
				return fmt.Errorf("computing the checksum of %s %s/%s: %w", kind, o.Namespace, o.Name, err)
			}
			key := Key{kind, o.Namespace, o.Name}
			if known, ok := scope.Stored[key]; ok && known.UID == o.UID && known.Checksum != sum && known.ResourceVersion != "" {
				if sum, err = sumAt(known, sum, body); err != nil {
					return fmt.Errorf("computing the checksum of %s: %w", key, err)
				}
			}
			set[key] = Entry{UID: o.UID, Checksum: sum}
			return nil
		})
		switch {
		case errors.Is(err, synchronizer.ErrKindNotServed):
			absent = append(absent, kind)
		case err != nil:
			return nil, nil, fmt.Errorf("listing %s: %w", kind, err)
		}
	}
	return set, absent, nil
}

// sumAt is the stored checksum if body differs from what is stored by its
// resourceVersion only, else sum.
func sumAt(stored Entry, sum string, body []byte) (string, error) {
	version, err := json.Marshal(stored.ResourceVersion)
	if err != nil {
		return "", err
	}
	older, err := patch.ApplyV1(body, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%s}}`, version))
	if err != nil {
		return "", err
	}
	was, err := checksum.ObjectV1(older)
	if err == nil && was == stored.Checksum {
		return was, nil
	}
	return sum, err
}

// Report is what does not agree; the lists are sorted.
type Report struct {
	Agree     int      `json:"agree"`
	Missing   []string `json:"missing"`   // in the cluster, not in the store
	Extra     []string `json:"extra"`     // in the store, not in the cluster
	Different []string `json:"different"` // in both, with another uid or checksum
}

// Equal reports whether nothing disagrees.
func (r Report) Equal() bool { return len(r.Missing)+len(r.Extra)+len(r.Different) == 0 }

// Compare holds two sets against each other.
func Compare(live, stored Set) Report {
	r := Report{Missing: []string{}, Extra: []string{}, Different: []string{}}
	for key, want := range live {
		switch got, ok := stored[key]; {
		case !ok:
			r.Missing = append(r.Missing, key.String())
		case got.UID != want.UID || got.Checksum != want.Checksum:
			r.Different = append(r.Different, key.String())
		default:
			r.Agree++
		}
	}
	for key := range stored {
		if _, ok := live[key]; !ok {
			r.Extra = append(r.Extra, key.String())
		}
	}
	slices.Sort(r.Missing)
	slices.Sort(r.Extra)
	slices.Sort(r.Different)
	return r
}
