// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"math"
	"strconv"
)

// roundsNumbers tells whether JSON text holds a number of 2^53 or more, which a
// client in the field may have rounded in a patch: such numbers pass through a
// float64 there. Text that is no JSON gives any answer.
func roundsNumbers(doc []byte) bool {
	const exact = 1 << 53
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case c == '"':
			for i++; i < len(doc) && doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					i++
				}
			}
		case c >= '0' && c <= '9':
			start := i
			for i < len(doc) && isNumber(doc[i]) {
				i++
			}
			// Fewer characters without an exponent cannot be so large.
			if n, err := strconv.ParseFloat(string(doc[start:i]), 64); err != nil || math.Abs(n) >= exact {
				return true
			}
			i--
		}
	}
	return false
}

func isNumber(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}
