// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"errors"
	"fmt"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// readFrame decodes the next event of a watch and gives it to each, or its type
// to unknown; io.EOF means that the stream ended between two events.
func readFrame(s *scanner, items *itemReader, unknown func(string), each func(synchronizer.WatchEvent) error) error {
	if _, err := s.peek(); err != nil {
		return err
	}
	if err := s.take('{'); err != nil {
		return err
	}
	var (
		typ  string
		held []byte // an object that stands before its type
		done bool
	)
	for first := true; ; first = false {
		ok, err := s.more('}', first)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		name, err := s.member()
		if err != nil {
			return err
		}
		switch {
		case name == "type":
			typ, err = s.text(64)
		case name == "object" && typ == "":
			raw, verr := s.value(items.limit)
			held, err = append(held[:0], raw...), verr
		case name == "object" && !done:
			done = true
			err = readEvent(typ, s, items, unknown, each)
		default:
			err = s.skip()
		}
		if err != nil {
			return err
		}
	}
	switch {
	case done:
		return nil
	case typ == "" || held == nil:
		return fmt.Errorf("reading event: %w: type or object is missing", synchronizer.ErrInvalid)
	}
	return readEvent(typ, newScanner(bytes.NewReader(held), len(held)+1), items, unknown, each)
}

func readEvent(typ string, s *scanner, items *itemReader, unknown func(string), each func(synchronizer.WatchEvent) error) error {
	var event synchronizer.WatchEvent
	switch typ {
	case "ADDED":
		event.Type = synchronizer.WatchAdded
	case "MODIFIED":
		event.Type = synchronizer.WatchModified
	case "DELETED":
		event.Type = synchronizer.WatchDeleted
	case "BOOKMARK":
		return readBookmark(s, each)
	case "ERROR":
		raw, err := s.value(statusLimit)
		if err != nil {
			return fmt.Errorf("reading error event: %w", err)
		}
		return readStatus(raw).err(nil)
	default:
		unknown(typ) // of a later API server
		return s.skip()
	}
	var err error
	if event.Object, err = items.read(s); errors.Is(err, errNoName) {
		// The stream is whole, and would give this event again from where it was.
		err = fmt.Errorf("%w: %w", synchronizer.ErrInvalid, err)
	}
	if err != nil {
		return fmt.Errorf("reading %s event: %w", typ, err)
	}
	return called(each(event))
}

// readBookmark hands on the resourceVersion alone: the object has no name.
func readBookmark(s *scanner, each func(synchronizer.WatchEvent) error) error {
	raw, err := s.value(metadataLimit)
	if err != nil {
		return fmt.Errorf("reading bookmark: %w", err)
	}
	meta, err := rawjson.Metadata(raw)
	if err != nil {
		return fmt.Errorf("reading bookmark: %w", err)
	}
	if meta.ResourceVersion == "" {
		return fmt.Errorf("reading bookmark: %w: it has no resourceVersion", synchronizer.ErrInvalid)
	}
	return called(each(synchronizer.WatchEvent{
		Type:   synchronizer.WatchBookmark,
		Object: synchronizer.Object{ResourceVersion: meta.ResourceVersion},
	}))
}

func called(err error) error {
	if err != nil {
		return &callbackError{err}
	}
	return nil
}
