// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"io"

	"synchronizer/internal/rawjson"
)

// errLimit says that a value has more bytes than asked for.
var errLimit = errors.New("value exceeds its limit")

// scanner takes a stream of JSON apart without holding more than one value. It
// finds where values end and checks the grammar only between them; the bytes of
// a value are checked by who reads them.
type scanner struct {
	src     io.Reader
	initial int // size of the buffer for values that fit

	buf     []byte
	keep    int // start of the value that must not be given up
	pos     int // next byte to look at
	end     int // end of what was read
	offset  int64
	err     error // of src; final
	partial skim  // of the value that was above its limit
}

func newScanner(src io.Reader, initial int) *scanner {
	return &scanner{src: src, initial: initial, buf: make([]byte, initial)}
}

// fill reads more, giving up what stands before keep.
func (s *scanner) fill() error {
	if s.err != nil {
		return s.err
	}
	switch {
	case s.keep == s.end:
		s.offset += int64(s.keep)
		s.keep, s.pos, s.end = 0, 0, 0
		if len(s.buf) > 8*s.initial {
			s.buf = make([]byte, s.initial)
		}
	case s.end == len(s.buf):
		from := s.buf[s.keep:s.end]
		if len(from) > len(s.buf)/2 {
			s.buf = make([]byte, 2*len(s.buf))
		}
		copy(s.buf, from)
		s.offset += int64(s.keep)
		s.pos -= s.keep
		s.keep, s.end = 0, len(from)
	}
	for range 100 {
		n, err := s.src.Read(s.buf[s.end:])
		s.end += n
		s.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.err = io.ErrNoProgress
	return s.err
}

// peek moves over white space and gives the byte there; io.EOF when nothing is left.
func (s *scanner) peek() (byte, error) {
	for {
		for ; s.pos < s.end; s.pos++ {
			switch b := s.buf[s.pos]; b {
			case ' ', '\t', '\r', '\n':
			default:
				s.keep = s.pos
				return b, nil
			}
		}
		s.keep = s.pos
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// next is peek inside a document, where the end of the stream is an error.
func (s *scanner) next() (byte, error) {
	b, err := s.peek()
	return b, unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// take moves over the byte want, which must be next.
func (s *scanner) take(want byte) error {
	b, err := s.next()
	if err != nil {
		return err
	}
	if b != want {
		return s.syntax(fmt.Sprintf("expected %q", want))
	}
	s.pos++
	return nil
}

func (s *scanner) syntax(reason string) error {
	return fmt.Errorf("%w at byte %d: %s", rawjson.ErrSyntax, s.offset+int64(s.pos), reason)
}

// more tells whether another member or element follows, in an object or array
// that closing ends; first is true in front of the first one.
func (s *scanner) more(closing byte, first bool) (bool, error) {
	b, err := s.next()
	switch {
	case err != nil:
		return false, err
	case b == closing:
		s.pos++
		return false, nil
	case first:
		return true, nil
	case b != ',':
		return false, s.syntax("expected a comma or the end of the object or array")
	}
	s.pos++
	return true, nil
}

// member reads a member's name and the colon behind it.
func (s *scanner) member() (string, error) {
	name, err := s.text(256)
	if err != nil {
		return "", err
	}
	return name, s.take(':')
}

// text reads a string of at most limit bytes.
func (s *scanner) text(limit int) (string, error) {
	b, err := s.next()
	if err != nil {
		return "", err
	}
	if b != '"' {
		return "", s.syntax("expected a string")
	}
	raw, err := s.value(limit)
	if err != nil {
		return "", err
	}
	decoded, err := rawjson.AppendUnquote(nil, raw)
	return string(decoded), err
}

// value reads one value of at most limit bytes; the result is valid until the
// next call. A longer one is errLimit with the value's beginning: call rest,
// which moves behind it.
func (s *scanner) value(limit int) ([]byte, error) {
	if _, err := s.next(); err != nil {
		return nil, err
	}
	var k skim
	for {
		n, done := k.scan(s.buf[s.pos:s.end])
		s.pos += n
		if s.pos-s.keep > limit {
			if s.partial = k; done {
				s.partial = skim{done: true}
			}
			return s.buf[s.keep : s.keep+limit], errLimit
		}
		if done {
			if s.pos == s.keep {
				return nil, s.syntax("expected a value")
			}
			return s.buf[s.keep:s.pos], nil
		}
		if err := s.fill(); err != nil {
			return nil, unexpected(err)
		}
	}
}

// rest moves behind a value that was above its limit.
func (s *scanner) rest() error {
	k := s.partial
	for !k.done {
		n, done := k.scan(s.buf[s.pos:s.end])
		s.pos += n
		s.keep = s.pos
		if done {
			break
		}
		if err := s.fill(); err != nil {
			return unexpected(err)
		}
	}
	return nil
}

// skip moves over a value of any length.
func (s *scanner) skip() error {
	if _, err := s.value(s.initial); !errors.Is(err, errLimit) {
		return err
	}
	return s.rest()
}

// skim finds the end of one value in pieces of it.
type skim struct {
	depth    int
	inString bool
	escaped  bool // the last byte was a backslash
	scalar   bool // a number or literal, which ends in front of the next token
	done     bool
}

// scan returns how many bytes of b belong to the value and whether it ends there.
func (k *skim) scan(b []byte) (n int, done bool) {
	i := 0
	if k.escaped && len(b) > 0 {
		k.escaped = false
		i = 1
	}
	for i < len(b) {
		if k.inString {
			for i < len(b) && b[i] != '"' && b[i] != '\\' {
				i++
			}
			if i == len(b) {
				return i, false
			}
			if b[i] == '\\' {
				if i += 2; i > len(b) {
					k.escaped = true
					return len(b), false
				}
				continue
			}
			i++
			k.inString = false
			if k.depth == 0 {
				return i, true
			}
			continue
		}
		c := b[i]
		if k.scalar || k.depth == 0 && c != '"' && c != '{' && c != '[' {
			k.scalar = true
			switch c {
			case ',', ']', '}', ':', ' ', '\t', '\r', '\n', '"', '{', '[':
				return i, true
			}
			i++
			continue
		}
		i++
		switch c {
		case '"':
			k.inString = true
		case '{', '[':
			k.depth++
		case '}', ']':
			if k.depth--; k.depth == 0 {
				return i, true
			}
		}
	}
	return i, false
}
