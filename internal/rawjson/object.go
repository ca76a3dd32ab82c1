// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"slices"
	"strconv"
)

// Meta is what the code that only passes an object by has to know of it.
// Absent and null members are zero.
type Meta struct {
	APIVersion string
	Kind       string

	Name            string
	Namespace       string
	UID             string
	ResourceVersion string
	Generation      int64

	// The first of metadata.ownerReferences.
	OwnerKind       string
	OwnerAPIVersion string

	// HasPodTemplateHash tells whether the label pod-template-hash is there.
	HasPodTemplateHash bool

	labels, annotations []byte // raw objects, point into the document
}

// Label gives the value of a label.
func (m *Meta) Label(name string) (string, bool) { return stringMember(m.labels, name) }

// Labels gives those whose values are strings; nil if there are none.
func (m *Meta) Labels() map[string]string {
	labels, _ := stringMembers(m.labels) // they were read once without an error
	return labels
}

// Annotation gives the value of an annotation.
func (m *Meta) Annotation(name string) (string, bool) { return stringMember(m.annotations, name) }

// Metadata reads the identity of a Kubernetes object in one scan, which also
// checks the whole document. A member of another type than Kubernetes gives it
// is an error. The labels and annotations of the result point into doc.
func Metadata(doc []byte) (Meta, error) { return metadata(doc, nil) }

// MetadataAndImages is Metadata, and the images of LabelsAndImages.
func MetadataAndImages(doc []byte) (m Meta, images []string, err error) {
	if m, err = metadata(doc, &images); err != nil {
		return Meta{}, nil, err
	}
	slices.Sort(images)
	return m, slices.Compact(images), nil
}

// metadata collects images unless it is nil.
func metadata(doc []byte, images *[]string) (Meta, error) {
	var m Meta
	c := NewCursor(doc)
	err := c.members("object", func(key Text) (err error) {
		switch {
		case key.Equal("apiVersion"):
			m.APIVersion, err = c.text("apiVersion")
		case key.Equal("kind"):
			m.Kind, err = c.text("kind")
		case key.Equal("metadata"):
			m = Meta{APIVersion: m.APIVersion, Kind: m.Kind} // the last duplicate wins as a whole
			if c.Type() == Null {
				_, err = c.Skip()
				break
			}
			err = c.members("metadata", func(key Text) error { return m.read(&c, key) })
		case images != nil:
			err = c.images(images, IsContainerList(key), false)
		default:
			_, err = c.Skip()
		}
		return err
	})
	if err != nil {
		return Meta{}, err
	}
	if err := c.End(); err != nil {
		return Meta{}, err
	}
	_, m.HasPodTemplateHash = m.Label("pod-template-hash")
	return m, nil
}

func (m *Meta) read(c *Cursor, key Text) (err error) {
	switch {
	case key.Equal("name"):
		m.Name, err = c.text("metadata.name")
	case key.Equal("namespace"):
		m.Namespace, err = c.text("metadata.namespace")
	case key.Equal("uid"):
		m.UID, err = c.text("metadata.uid")
	case key.Equal("resourceVersion"):
		m.ResourceVersion, err = c.text("metadata.resourceVersion")
	case key.Equal("generation"):
		m.Generation, err = c.integer("metadata.generation")
	case key.Equal("ownerReferences"):
		m.OwnerKind, m.OwnerAPIVersion, err = c.firstOwner()
	case key.Equal("labels"):
		m.labels, err = c.Skip()
	case key.Equal("annotations"):
		m.annotations, err = c.Skip()
	default:
		_, err = c.Skip()
	}
	return err
}

// members reads the object that the cursor stands in front of. Fn must move behind the value.
func (c *Cursor) members(name string, fn func(key Text) error) error {
	if c.Type() != Object {
		if c.Type() == Invalid {
			return syntaxError(c.pos, "expected an object")
		}
		return typeError(name, "an object")
	}
	if err := c.Enter(); err != nil {
		return err
	}
	for {
		key, ok, err := c.Member()
		if !ok || err != nil {
			return err
		}
		if err := fn(key); err != nil {
			return err
		}
	}
}

func (c *Cursor) integer(name string) (int64, error) {
	t := c.Type()
	raw, err := c.Skip()
	if err != nil || t == Null {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, typeError(name, "an integer")
	}
	return n, nil
}

func (c *Cursor) firstOwner() (kind, apiVersion string, err error) {
	const name = "metadata.ownerReferences"
	if t := c.Type(); t != Array {
		if _, err := c.Skip(); err != nil || t == Null {
			return "", "", err
		}
		return "", "", typeError(name, "an array")
	}
	if err := c.Enter(); err != nil {
		return "", "", err
	}
	for first := true; ; first = false {
		ok, err := c.Element()
		if !ok || err != nil {
			return kind, apiVersion, err
		}
		if !first {
			if _, err := c.Skip(); err != nil {
				return "", "", err
			}
			continue
		}
		err = c.members(name, func(key Text) (err error) {
			switch {
			case key.Equal("kind"):
				kind, err = c.text(name)
			case key.Equal("apiVersion"):
				apiVersion, err = c.text(name)
			default:
				_, err = c.Skip()
			}
			return err
		})
		if err != nil {
			return "", "", err
		}
	}
}

// stringMember reads one member of an object of strings; false also if it has another type.
func stringMember(raw []byte, name string) (string, bool) {
	if TypeOf(raw) != Object {
		return "", false
	}
	value, err := Get(raw, name)
	if err != nil || TypeOf(value) != String {
		return "", false
	}
	return Text(value).String(), true
}

// LabelsAndImages reads in one scan what an object is searched by. Labels are
// metadata.labels, nil if there are none; values that are not strings are left out.
// Images are those of all containers, sorted, each once: the member `image` of every
// object in an array named containers, initContainers or ephemeralContainers, at
// whatever depth outside of metadata. A malformed document is an error; one that is
// no Kubernetes object is none.
func LabelsAndImages(doc []byte) (labels map[string]string, images []string, err error) {
	c := NewCursor(doc)
	var raw []byte
	if c.Type() != Object {
		err = c.images(&images, false, false)
	} else {
		err = c.members("object", func(key Text) (err error) {
			if key.Equal("metadata") {
				raw, err = c.get([]string{"labels"})
				return err
			}
			return c.images(&images, IsContainerList(key), false)
		})
	}
	if err == nil {
		err = c.End()
	}
	if err == nil {
		labels, err = stringMembers(raw)
	}
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(images)
	return labels, slices.Compact(images), nil
}

// stringMembers gives the members of an object that are strings; nil for none.
func stringMembers(raw []byte) (map[string]string, error) {
	if TypeOf(raw) != Object {
		return nil, nil
	}
	var labels map[string]string
	err := Members(raw, func(key Text, value []byte) error {
		name := key.String()
		delete(labels, name) // an earlier duplicate
		if TypeOf(value) != String {
			return nil
		}
		if labels == nil {
			labels = make(map[string]string, 8)
		}
		labels[name] = Text(value).String()
		return nil
	})
	return labels, err
}

// images reads one value. List says that it may be a list of containers, item
// that it may be one.
func (c *Cursor) images(found *[]string, list, item bool) error {
	switch c.Type() {
	case Object:
		return c.members("object", func(key Text) error {
			if item && c.Type() == String && key.Equal("image") {
				raw, err := c.Skip()
				if err == nil && len(raw) > 2 {
					*found = append(*found, Text(raw).String())
				}
				return err
			}
			return c.images(found, IsContainerList(key), false)
		})
	case Array:
		if err := c.Enter(); err != nil {
			return err
		}
		for {
			if ok, err := c.Element(); !ok || err != nil {
				return err
			}
			if err := c.images(found, false, list); err != nil {
				return err
			}
		}
	default:
		_, err := c.Skip()
		return err
	}
}

// IsContainerList tells whether a member of this name lists containers in a pod template.
func IsContainerList(key Text) bool {
	return key.Equal("containers") || key.Equal("initContainers") || key.Equal("ephemeralContainers")
}
