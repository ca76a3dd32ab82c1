// SPDX-License-Identifier: Apache-2.0

package kubefake

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// newObject gives doc the members that an API server sets.
func newObject(kind synchronizer.Kind, doc []byte, version int64, existing map[string]*object) (*object, error) {
	meta, err := rawjson.Metadata(doc)
	if err != nil {
		return nil, err
	}
	if meta.Name == "" {
		return nil, errors.New("metadata.name is empty")
	}
	uid := meta.UID
	if old := existing[meta.Namespace+"/"+meta.Name]; uid == "" && old != nil {
		uid = old.UID
	}
	if uid == "" {
		uid = fmt.Sprintf("00000000-0000-4000-8000-%012d", version)
	}
	objectKind := meta.Kind
	if objectKind == "" {
		objectKind = kindName(kind.Resource)
	}
	body, err := complete(doc, kind.GroupVersion(), objectKind, uid, version)
	if err != nil {
		return nil, err
	}
	o := &object{Object: synchronizer.Object{
		Namespace: meta.Namespace, Name: meta.Name, UID: uid,
		ResourceVersion: strconv.FormatInt(version, 10), Body: body,
	}}
	metadata, err := rawjson.Get(body, "metadata")
	if err != nil {
		return nil, err
	}
	o.hollow = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s}`, objectKind, kind.GroupVersion(), metadata)
	return o, nil
}

// complete puts kind and apiVersion in front, and uid and resourceVersion in
// front of the other metadata; everything else keeps its bytes.
func complete(doc []byte, apiVersion, kind, uid string, version int64) ([]byte, error) {
	out := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q`, kind, apiVersion)
	err := rawjson.Members(doc, func(key rawjson.Text, value []byte) error {
		switch key.String() {
		case "kind", "apiVersion":
		case "metadata":
			out = fmt.Appendf(out, `,"metadata":{"resourceVersion":"%d","uid":%q`, version, uid)
			err := rawjson.Members(value, func(key rawjson.Text, value []byte) error {
				if name := key.String(); name != "uid" && name != "resourceVersion" {
					out = append(append(append(append(out, ','), key...), ':'), value...)
				}
				return nil
			})
			out = append(out, '}')
			return err
		default:
			out = append(append(append(append(out, ','), key...), ':'), value...)
		}
		return nil
	})
	return append(out, '}'), err
}

// setVersion replaces the resourceVersion that complete has written.
func setVersion(body []byte, version int64) []byte {
	const before = `,"metadata":{"resourceVersion":"`
	head, tail, _ := strings.Cut(string(body), before)
	_, tail, _ = strings.Cut(tail, `"`)
	return []byte(head + before + strconv.FormatInt(version, 10) + `"` + tail)
}

// kindName guesses the name of an object's kind for documents without one
// ("deployments" is "Deployment"); good enough for made-up kinds.
func kindName(resource string) string {
	name := strings.TrimSuffix(resource, "s")
	return strings.ToUpper(name[:1]) + name[1:]
}
