// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"synchronizer/internal/rawjson"
)

// labelsOf gives the labels of an object as the column objects.labels keeps
// them: a JSON object with sorted keys, empty for no labels. A body that is not
// JSON has none; it is stored all the same.
func labelsOf(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	labels, err := rawjson.Labels(body)
	if err != nil || len(labels) == 0 {
		return ""
	}
	text, err := json.Marshal(labels)
	if err != nil {
		return "" // a map of strings can always be written
	}
	return string(text)
}

// parseLabels is the reverse of labelsOf.
func parseLabels(text string) map[string]string {
	if text == "" {
		return nil
	}
	labels := map[string]string{}
	_ = rawjson.Members([]byte(text), func(key rawjson.Text, value []byte) error {
		labels[key.String()] = rawjson.Text(value).String()
		return nil
	})
	return labels
}

// labelHashes gives the index values of labels, sorted, each once.
func labelHashes(text string) []int64 {
	labels := parseLabels(text)
	if len(labels) == 0 {
		return nil
	}
	hashes := make([]int64, 0, len(labels))
	for key, value := range labels {
		hashes = append(hashes, labelHash(key, value))
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// labelHash is 63 bits of the SHA-256 of key, NUL and value: nobody can make
// labels that meet in one place on purpose and cheaply.
func labelHash(key, value string) int64 {
	var space [128]byte
	sum := sha256.Sum256(append(append(append(space[:0], key...), 0), value...))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 1)
}

// labelChange gives what is in one sorted list and not in the other.
func labelChange(before, after []int64) (removed, added []int64) {
	for len(before) > 0 && len(after) > 0 {
		switch {
		case before[0] < after[0]:
			removed, before = append(removed, before[0]), before[1:]
		case before[0] > after[0]:
			added, after = append(added, after[0]), after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
	return append(removed, before...), append(added, after...)
}
