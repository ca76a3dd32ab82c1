// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"hash/fnv"
	"slices"
	"strconv"
)

// share gives each partition to one of the members: to all about the same number,
// and such that few change their owner when a member comes or goes. It depends on
// the set of members only.
func share(members []string, partitions int) []string {
	members = slices.Clone(members)
	slices.Sort(members)
	members = slices.Compact(members)
	most := (partitions + len(members) - 1) / len(members)
	// With a remainder only so many members may have one more than the others.
	full := partitions - (most-1)*len(members)
	owners := make([]string, partitions)
	load := map[string]int{}
	for p := range owners {
		var best string
		var bestScore uint64
		for _, id := range members {
			if load[id] == most || load[id] == most-1 && full == 0 {
				continue
			}
			if s := score(id, p); best == "" || s > bestScore {
				best, bestScore = id, s
			}
		}
		owners[p] = best
		if load[best]++; load[best] == most {
			full--
		}
	}
	return owners
}

func score(id string, partition int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id + " " + strconv.Itoa(partition)))
	// The low bytes of FNV differ little for texts that end alike.
	s := h.Sum64()
	s ^= s >> 33
	s *= 0xff51afd7ed558ccd
	return s ^ s>>33
}
