// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

func marshal(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // only values made from JSON come here
	}
	return raw
}

// decode reads a document. Integers above 2^53 are rounded, as clients in the
// field do in patches (14).
func decode(text string) (any, bool) {
	var v any
	return v, json.Unmarshal([]byte(text), &v) == nil
}

// diff is the merge patch from a to b. A null member of b is written all the
// same, where it means something else (13).
func diff(a, b map[string]any) map[string]any {
	patch := map[string]any{}
	for name, now := range b {
		before, had := a[name]
		beforeMap, ok1 := before.(map[string]any)
		nowMap, ok2 := now.(map[string]any)
		switch {
		case had && ok1 && ok2:
			if inner := diff(beforeMap, nowMap); len(inner) > 0 {
				patch[name] = inner
			}
		case !had || !reflect.DeepEqual(before, now):
			patch[name] = now
		}
	}
	for name := range a {
		if _, has := b[name]; !has {
			patch[name] = nil
		}
	}
	return patch
}

// apply applies a merge patch. Null members inside arrays of the patch vanish
// too, unlike in RFC 7386 (13).
func apply(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return withoutNulls(patch)
	}
	result, ok := target.(map[string]any)
	if ok {
		result = maps.Clone(result)
	} else {
		result = map[string]any{}
	}
	for name, value := range members {
		if value == nil {
			delete(result, name)
		} else {
			result[name] = apply(result[name], value)
		}
	}
	return result
}

func withoutNulls(value any) any {
	switch v := value.(type) {
	case []any:
		result := make([]any, len(v))
		for i := range v {
			result[i] = withoutNulls(v[i])
		}
		return result
	case map[string]any:
		result := map[string]any{}
		for name, member := range v {
			if member != nil {
				result[name] = withoutNulls(member)
			}
		}
		return result
	}
	return value
}

// Checksum is checksum v1 of a document that was already stripped; "" if it is
// not JSON.
func Checksum(document string) string {
	v, ok := decode(document)
	if !ok {
		return ""
	}
	return checksum(v)
}

func checksum(v any) string {
	h := hash(v, "")
	return hex.EncodeToString(h[:])
}

func hash(value any, path string) [32]byte {
	hexOf := func(v any, path string) string {
		h := hash(v, path)
		return hex.EncodeToString(h[:])
	}
	var parts []string
	switch v := value.(type) {
	case nil:
		return sha256.Sum256([]byte("null"))
	case bool:
		if v {
			return sha256.Sum256([]byte("true"))
		}
		return sha256.Sum256([]byte("false"))
	case string:
		return sha256.Sum256([]byte(v))
	case float64:
		return sha256.Sum256(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	case []any:
		for _, element := range v {
			parts = append(parts, hexOf(element, path))
		}
	case map[string]any:
		for name, member := range v {
			if inner := path + "." + name; inner != ".status.conditions" {
				parts = append(parts, hexOf(name, "")+":"+hexOf(member, inner))
			}
		}
	}
	slices.Sort(parts)
	return sha256.Sum256([]byte(strings.Join(parts, "|")))
}
