// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/base64"
	"math/big"
	"strconv"
	"strings"

	"synchronizer/internal/policy"
	"synchronizer/internal/rawjson"
)

// What the policy puts in the place of values. These texts are refused wherever
// they would be newly written, and not only where the policy masks now: the
// object may have been sent under another policy.
const (
	mask       = "XXXXXX"
	mask64     = "WFhYWFhY" // in data of a Secret
	hashPrefix = "sha256:"
	hashLength = len(hashPrefix) + 64
)

// mostPaths bounds the list of masked values that a message names.
const mostPaths = 5

// inspect looks for masks, hashes and inexact numbers in a value that is to be
// written.
func (m *merger) inspect(path string, v *value) {
	switch v.typ {
	case rawjson.Object:
		for i := range v.members {
			m.inspect(policy.JoinPath(path, v.members[i].name), v.members[i].value)
		}
	case rawjson.Array:
		for i, e := range v.elements {
			m.inspect(path+"["+strconv.Itoa(i)+"]", e)
		}
	case rawjson.Number:
		if !storable(string(v.raw)) && len(m.inexact) <= mostPaths {
			m.inexact = append(m.inexact, path)
		}
	case rawjson.String:
		text := rawjson.Text(v.raw).String()
		m.hashes = m.hashes || hashLike(text)
		if (text == mask || m.secret && text == mask64 && inData(path)) && len(m.masked) <= mostPaths {
			m.masked = append(m.masked, path)
		}
	}
}

// storable tells whether the API server keeps a number: it reads an integer as
// int64, and everything else as float64, which rounds larger integers silently.
func storable(number string) bool {
	if _, err := strconv.ParseInt(number, 10, 64); err == nil {
		return true
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	exact, ok := new(big.Int).SetString(number, 10)
	if !ok {
		return true // a fraction or power, of which floats are made
	}
	rounded, _ := big.NewFloat(f).Int(nil)
	return exact.Cmp(rounded) == 0
}

// inData tells whether a path leads to a value in data of a Secret.
func inData(path string) bool {
	return strings.HasPrefix(path, "data.") || strings.HasPrefix(path, "data[")
}

// hashLike tells whether a text has the form of a hash of the policy. Names of
// images may have it too.
func hashLike(text string) bool {
	if len(text) == base64.StdEncoding.EncodedLen(hashLength) {
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return false
		}
		text = string(decoded)
	}
	return len(text) == hashLength && strings.HasPrefix(text, hashPrefix)
}

// hashed names the places of written at which the policy would hash what looks
// like a hash and is none of the current object's own values: there a hash of the
// policy would be written. Shown is written as the policy shows it.
func hashed(current, written, shown *value) []string {
	own := map[string]bool{}
	current.strings(func(text string) { own[text] = true })
	var found []string
	compare(written, shown, "", func(path, text string) {
		if hashLike(text) && !own[text] && len(found) <= mostPaths {
			found = append(found, path)
		}
	})
	return found
}

// strings calls fn for every string in v.
func (v *value) strings(fn func(text string)) {
	if v == nil {
		return
	}
	if v.typ == rawjson.String {
		fn(rawjson.Text(v.raw).String())
	}
	for i := range v.members {
		v.members[i].strings(fn)
	}
	for _, e := range v.elements {
		e.strings(fn)
	}
}

// compare calls fn for every string of a that b has another value for.
func compare(a, b *value, path string, fn func(path, text string)) {
	if b == nil {
		return
	}
	switch {
	case a.typ == rawjson.String && !equal(a, b):
		fn(path, rawjson.Text(a.raw).String())
	case a.typ == rawjson.Object:
		for i := range a.members {
			name := a.members[i].name
			compare(a.members[i].value, b.get(name), policy.JoinPath(path, name), fn)
		}
	case a.typ == rawjson.Array && len(a.elements) == len(b.elements):
		for i := range a.elements {
			compare(a.elements[i], b.elements[i], path+"["+strconv.Itoa(i)+"]", fn)
		}
	}
}
