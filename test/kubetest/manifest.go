// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// fieldManager owns the fields that Apply sets.
const fieldManager = "kubetest"

// errNoKind says that discovery does not list a kind, perhaps not yet.
var errNoKind = errors.New("the API server does not serve this kind")

// Apply creates or changes the objects of a manifest by server-side apply, in
// their order: YAML or JSON, several documents allowed. Objects without a
// namespace go into default. After a CustomResourceDefinition it waits until
// the kind is served.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	return eachObject(manifest, func(object *unstructured.Unstructured) error {
		if err := c.applyObject(ctx, object); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		return nil
	})
}

// Delete deletes the objects that a manifest names, in its order, without
// waiting for finalizers. Objects that do not exist are no error.
func (c *Cluster) Delete(ctx context.Context, manifest string) error {
	return eachObject(manifest, func(object *unstructured.Unstructured) error {
		path, err := c.path(ctx, object)
		if err == nil {
			_, err = c.Do(ctx, http.MethodDelete, path, "", nil)
		}
		if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, errNoKind) {
			return fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		return nil
	})
}

// CreateNamespace creates a namespace; one that exists is no error.
func (c *Cluster) CreateNamespace(ctx context.Context, name string) error {
	err := c.post(ctx, "/api/v1/namespaces", map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}, nil)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

func eachObject(manifest string, do func(*unstructured.Unstructured) error) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading manifest: %w", err)
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return fmt.Errorf("reading manifest: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := do(&object); err != nil {
			return err
		}
	}
}

func (c *Cluster) applyObject(ctx context.Context, object *unstructured.Unstructured) error {
	path, err := c.path(ctx, object)
	if err != nil {
		return err
	}
	body, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	query := url.Values{"fieldManager": {fieldManager}, "force": {"true"}}
	if _, err := c.Do(ctx, http.MethodPatch, path+"?"+query.Encode(), applyType, body); err != nil {
		return err
	}
	if object.GetKind() == "CustomResourceDefinition" {
		return c.waitForCRD(ctx, object.GetName())
	}
	return nil
}

// path returns the API path of an object, asking the API server for the plural
// of its kind and whether it is namespaced.
func (c *Cluster) path(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	gvk := object.GroupVersionKind()
	root := versionPath(gvk.GroupVersion())
	answer, err := c.Get(ctx, root)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("%w: %s", errNoKind, gvk)
	}
	if err != nil {
		return "", err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(answer, &list); err != nil {
		return "", fmt.Errorf("reading discovery: %w", err)
	}
	for _, resource := range list.APIResources {
		if resource.Kind != gvk.Kind || strings.Contains(resource.Name, "/") {
			continue
		}
		return objectPath(root, resource, object), nil
	}
	return "", fmt.Errorf("%w: %s", errNoKind, gvk)
}

func objectPath(root string, resource metav1.APIResource, object *unstructured.Unstructured) string {
	var path bytes.Buffer
	path.WriteString(root)
	if resource.Namespaced {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		path.WriteString("/namespaces/" + namespace)
	}
	path.WriteString("/" + resource.Name + "/" + url.PathEscape(object.GetName()))
	return path.String()
}

func versionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}
