// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"synchronizer"
	"synchronizer/internal/kube/recorded"
)

// searches are queries by words: one that few objects have, and one together with
// a word that very many have.
func (l *largeDatabase) searches(random *rand.Rand) []readQuery {
	word := func() string { return l.words[random.IntN(len(l.words))] }
	search := func(text string) synchronizer.ObjectQuery {
		return synchronizer.ObjectQuery{Account: readAccount, Search: text}
	}
	return []readQuery{
		{"search for a word", 100, func() synchronizer.ObjectQuery { return search(word()) }},
		{"search for a word and a namespace", 100, func() synchronizer.ObjectQuery {
			return search(word() + " " + l.namespaces[random.IntN(len(l.namespaces))])
		}},
	}
}

// timeSets is the median time of reading the set-hashes of the largest cluster, 0
// if the store has none.
func timeSets(ctx context.Context, store benchStore, l *largeDatabase) (time.Duration, error) {
	var took []time.Duration
	for range 9 {
		start := time.Now()
		_, err := store.Sets(ctx, synchronizer.ClusterKind{
			ClusterID: synchronizer.ClusterID{Account: readAccount, Cluster: l.clusters[0]}, Kind: recorded.Deployments,
		})
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return quantile(took, .5), nil
}
