// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"synchronizer/internal/policy"
	"synchronizer/internal/rawjson"
)

// MaxBytes is the most that Read takes.
const MaxBytes = 64 << 20

// Object is one object of a file.
type Object struct {
	APIVersion, Kind, Namespace, Name string

	JSON []byte // for an object of a JSON file its own bytes
	YAML bool   // the file is YAML
}

// Group is the API group, empty for the core group.
func (o *Object) Group() string {
	group, _, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// Version is the API version.
func (o *Object) Version() string { return o.APIVersion[strings.IndexByte(o.APIVersion, '/')+1:] }

// Read reads the objects of a file, JSON or YAML, of one document or several; those of
// a list count one by one. An error says which document is wrong.
func Read(r io.Reader) ([]Object, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("is larger than %d bytes", MaxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors write a byte order mark
	split := splitYAML
	isYAML := !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{"))
	if !isYAML {
		split = splitJSON
	}
	documents, err := split(data)
	if err != nil {
		return nil, err
	}
	var objects []Object
	for i, doc := range documents {
		found, err := expand(doc)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		objects = append(objects, found...)
	}
	if len(objects) == 0 {
		return nil, errors.New("holds no object")
	}
	for i := range objects {
		objects[i].YAML = isYAML
	}
	return objects, nil
}

func splitJSON(data []byte) ([][]byte, error) {
	var documents [][]byte
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			offset := int64(len(data))
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				offset = min(syntax.Offset, offset)
			}
			return nil, fmt.Errorf("document %d: line %d: malformed JSON: %w", len(documents)+1, 1+bytes.Count(data[:offset], []byte("\n")), err)
		}
		documents = append(documents, raw)
	}
}

func splitYAML(data []byte) ([][]byte, error) {
	var documents [][]byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		doc, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, fmt.Errorf("document %d: malformed YAML: %w", n, err)
		}
		if string(doc) != "null" {
			documents = append(documents, doc)
		}
	}
}

// expand gives the object that a document holds, or those of a list.
func expand(doc []byte) ([]Object, error) {
	if rawjson.TypeOf(doc) != rawjson.Object {
		return nil, errors.New("is not an object")
	}
	var head struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Items      json.RawMessage `json:"items"`
		Metadata   struct {
			Name, Namespace string
		} `json:"metadata"`
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return nil, fmt.Errorf("is no Kubernetes object: %w", err)
	}
	if head.APIVersion == "" || head.Kind == "" {
		return nil, errors.New("has no apiVersion or no kind: write it as kubectl get -o yaml does")
	}
	if !strings.HasSuffix(head.Kind, "List") || rawjson.TypeOf(head.Items) != rawjson.Array {
		return []Object{{
			APIVersion: head.APIVersion, Kind: head.Kind, JSON: doc,
			Namespace: head.Metadata.Namespace, Name: head.Metadata.Name,
		}}, nil
	}
	var objects []Object
	err := rawjson.Elements(head.Items, func(item []byte) error {
		if kind := strings.TrimSuffix(head.Kind, "List"); kind != "" {
			var err error
			if item, err = policy.AddTypeMeta(nil, item, head.APIVersion, kind); err != nil {
				return err
			}
		}
		inner, err := expand(item)
		objects = append(objects, inner...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("in its items: %w", err)
	}
	return objects, nil
}

// Plurals gives the names that the resource of a kind may have, the likeliest first.
func Plurals(kind string) []string {
	name := strings.ToLower(kind)
	stem, isY := strings.CutSuffix(name, "y")
	vowel := stem != "" && strings.ContainsRune("aeiou", rune(stem[len(stem)-1]))
	sibilant := false
	for _, end := range []string{"s", "x", "z", "ch", "sh"} {
		sibilant = sibilant || strings.HasSuffix(name, end)
	}
	switch {
	case name == "endpoints":
		return []string{name}
	case isY && !vowel:
		return []string{stem + "ies", name + "s", name}
	case sibilant:
		return []string{name + "es", name, name + "s"}
	default:
		return []string{name + "s", name + "es", name}
	}
}
