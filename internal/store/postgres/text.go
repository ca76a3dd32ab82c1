// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer/internal/rawjson"
	"synchronizer/internal/store/index"
)

// PostgreSQL has no NUL in texts. The spelling of it, and of the character that
// spells it, keeps every text apart and in order.
var (
	spell   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unspell = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
)

// toText is how a text is stored. Keys are checked before (they are valid UTF-8);
// of another text that is not, the bad bytes become U+FFFD.
func toText(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	if strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, 1) < 0 {
		return s
	}
	return spell.Replace(s)
}

func fromText(s string) string {
	if strings.IndexByte(s, 1) < 0 {
		return s
	}
	return unspell.Replace(s)
}

func toTexts(list []string) []string {
	result := make([]string, len(list))
	for i, s := range list {
		result[i] = toText(s)
	}
	return result
}

// toTime is a timestamp, NULL for no time.
func toTime(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

func fromTime(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// toBody says in which column a body goes, and whether SQL can look into it.
func toBody(body []byte) (json pgtype.Text, raw []byte, ok bool) {
	switch {
	case body == nil:
		return pgtype.Text{}, nil, false
	case !rawjson.Valid(body) || !utf8.Valid(body):
		return pgtype.Text{}, body, false
	}
	return pgtype.Text{String: string(body), Valid: true}, nil, plainEscapes(body)
}

func fromBody(json pgtype.Text, raw []byte) []byte {
	if json.Valid {
		return []byte(json.String)
	}
	return raw
}

// plainEscapes reports whether every \u of a valid document is a character that a
// PostgreSQL text can have: no NUL, and no half of a pair alone.
func plainEscapes(doc []byte) bool {
	for i := 0; i+1 < len(doc); i++ {
		if doc[i] != '\\' {
			continue
		}
		i++ // the next byte is part of the escape
		if doc[i] != 'u' {
			continue
		}
		switch unit := unitOf(doc[i+1:]); {
		case unit == 0, unit >= 0xdc00 && unit <= 0xdfff:
			return false
		case unit >= 0xd800 && unit <= 0xdbff:
			if next := doc[i+5:]; len(next) < 6 || next[0] != '\\' || next[1] != 'u' {
				return false
			} else if low := unitOf(next[2:]); low < 0xdc00 || low > 0xdfff {
				return false
			}
			i += 6
		}
		i += 4
	}
	return true
}

// unitOf reads four hexadecimal digits.
func unitOf(b []byte) int {
	n := 0
	for _, c := range b[:4] {
		switch {
		case c <= '9':
			n = n<<4 | int(c-'0')
		default:
			n = n<<4 | int(c|0x20-'a'+10)
		}
	}
	return n
}

// Salts keep a label apart from a word that has the same hash.
const (
	labelSalt = 0x9e3779b97f4a7c15
	wordSalt  = 0xc2b2ae3d27d4eb4f
)

// term is the hash of a label or word in the index of terms. The kind is mixed in,
// so that the hits of one kind are one list, however many other kinds have them.
func term(kind int32, salt uint64, hash int64) int64 {
	x := uint64(hash) ^ uint64(uint32(kind)+1)*salt
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return int64(x)
}

// termsOf are those of an object, sorted.
func termsOf(kind int32, entry *index.Entry) []int64 {
	labels := entry.Labels.Hashes()
	terms := make([]int64, 0, len(labels)+len(entry.Words))
	for _, label := range labels {
		terms = append(terms, term(kind, labelSalt, label))
	}
	for _, word := range entry.Words {
		terms = append(terms, term(kind, wordSalt, word))
	}
	slices.Sort(terms)
	return terms
}

// halves is a hash as two columns.
func halves(hash [16]byte) (int64, int64) {
	return int64(binary.BigEndian.Uint64(hash[:8])), int64(binary.BigEndian.Uint64(hash[8:]))
}

func wholeHash(h1, h2 int64) (hash [16]byte) {
	binary.BigEndian.PutUint64(hash[:8], uint64(h1))
	binary.BigEndian.PutUint64(hash[8:], uint64(h2))
	return hash
}

// arrayText is an array of numbers as PostgreSQL reads it, NULL for none.
func arrayText(numbers []int64) pgtype.Text {
	if len(numbers) == 0 {
		return pgtype.Text{}
	}
	b := make([]byte, 0, 21*len(numbers))
	separator := byte('{')
	for _, number := range numbers {
		b = append(b, separator)
		b = strconv.AppendInt(b, number, 10)
		separator = ','
	}
	return pgtype.Text{String: string(append(b, '}')), Valid: true}
}
