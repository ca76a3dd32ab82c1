// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"io"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// page is what a LIST response says besides its items.
type page struct {
	resourceVersion string
	next            string // continue token, "" on the last page
	items           int
	itemBytes       int64
}

// readPage decodes one LIST response. The items may stand anywhere: built-in
// kinds put them last, custom resources first. A nil error means that the
// response is whole: closed by its last brace, with nothing behind it.
func readPage(s *scanner, items *itemReader, each func(synchronizer.Object) error) (page, error) {
	var p page
	if err := s.take('{'); err != nil {
		return p, err
	}
	var hasItems bool
	for first := true; ; first = false {
		ok, err := s.more('}', first)
		if err != nil {
			return p, err
		}
		if !ok {
			break
		}
		name, err := s.member()
		if err != nil {
			return p, err
		}
		switch name {
		case "items":
			if hasItems {
				return p, s.syntax("items stand twice")
			}
			hasItems = true
			err = p.readItems(s, items, each)
		case "metadata":
			err = p.readMetadata(s)
		default:
			err = s.skip()
		}
		if err != nil {
			return p, err
		}
	}
	switch _, err := s.peek(); {
	case err == nil:
		return p, s.syntax("trailing content behind the list")
	case !errors.Is(err, io.EOF):
		return p, err
	case !hasItems:
		return p, errors.New("response is not a list: it has no items")
	case p.resourceVersion == "":
		return p, errors.New("list has no resourceVersion")
	}
	return p, nil
}

func (p *page) readItems(s *scanner, items *itemReader, each func(synchronizer.Object) error) error {
	b, err := s.next()
	if err != nil {
		return err
	}
	if b != '[' {
		raw, err := s.value(len("null"))
		if err == nil && string(raw) == "null" {
			return nil
		}
		return s.syntax("items are not an array")
	}
	s.pos++
	for first := true; ; first = false {
		ok, err := s.more(']', first)
		if err != nil || !ok {
			return err
		}
		o, err := items.read(s)
		if err != nil {
			return fmt.Errorf("reading item %d: %w", p.items, err)
		}
		p.items++
		p.itemBytes += int64(len(o.Body))
		if err := each(o); err != nil {
			return &callbackError{err}
		}
	}
}

// metadataLimit is far above any continue token.
const metadataLimit = 1 << 20

func (p *page) readMetadata(s *scanner) error {
	raw, err := s.value(metadataLimit)
	if err != nil {
		return fmt.Errorf("reading metadata of the list: %w", err)
	}
	return rawjson.Members(raw, func(key rawjson.Text, value []byte) error {
		switch {
		case key.Equal("resourceVersion"):
			p.resourceVersion = rawjson.Text(value).String()
		case key.Equal("continue"):
			if rawjson.TypeOf(value) != rawjson.String {
				return errors.New("continue token is not a string")
			}
			p.next = rawjson.Text(value).String()
		}
		return nil
	})
}

// callbackError is an error of the caller's own function, which is given back as it is.
type callbackError struct{ err error }

func (e *callbackError) Error() string { return e.err.Error() }
