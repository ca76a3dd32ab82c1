// SPDX-License-Identifier: Apache-2.0

package storageapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// bodyBytes bounds what is read of a request; profiles and SBOMs are large.
const bodyBytes = 64 << 20

// readBody reads the object of a create or update.
func (s *Server) readBody(r *http.Request, request Request) (document, error) {
	if t := r.Header.Get("Content-Type"); t != "" && !strings.HasPrefix(t, "application/json") {
		return document{}, fmt.Errorf("content type %s is not served", t)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyBytes+1))
	if err != nil {
		return document{}, fmt.Errorf("reading body: %w", err)
	}
	if len(body) > bodyBytes {
		return document{}, errors.New("object is too large")
	}
	d, err := readDocument(body)
	if err != nil {
		return d, err
	}
	if want := s.kinds[request.Resource].objectKind; d.apiVersion != groupVersion || d.kind != want {
		return d, fmt.Errorf("%s %s is not %s %s", d.apiVersion, d.kind, groupVersion, want)
	}
	if d.identity.Namespace != "" && d.identity.Namespace != request.Namespace {
		return d, errors.New("the namespace of the object does not match that of the request")
	}
	return d, nil
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, request Request) {
	d, err := s.readBody(r, request)
	k, name := s.kinds[request.Resource], d.identity.Name
	switch {
	case err != nil:
		answerError(w, apierrors.NewBadRequest(err.Error()))
		return
	case name == "" || k.namespaced && request.Namespace == "":
		answerError(w, s.invalid(request, name, field.Required(field.NewPath("metadata", "name"), "name and namespace are required")))
		return
	}
	s.mu.Lock()
	var made *object
	if k.objects[request.Namespace+"/"+name] == nil {
		made = s.store(k, request.Namespace, name, d, true)
	}
	s.mu.Unlock()
	if made == nil {
		answerError(w, apierrors.NewAlreadyExists(groupResource(request.Resource), name))
		return
	}
	answer(w, http.StatusCreated, made.encode(false, true))
}

// update replaces an object; as in the field, it must name the state that it replaces.
func (s *Server) update(w http.ResponseWriter, r *http.Request, request Request) {
	d, err := s.readBody(r, request)
	if err == nil && d.identity.Name != request.Name {
		err = errors.New("the name of the object does not match that of the request")
	}
	if err != nil {
		answerError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	now, refused := s.replace(request, d)
	if refused != nil {
		answerError(w, refused)
		return
	}
	answer(w, http.StatusOK, now.encode(false, true))
}

func (s *Server) replace(request Request, d document) (*object, *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[request.Resource]
	old := k.objects[request.Namespace+"/"+request.Name]
	switch version := d.identity.ResourceVersion; {
	case old == nil:
		return nil, apierrors.NewNotFound(groupResource(request.Resource), request.Name)
	case version == "":
		return nil, s.invalid(request, request.Name, field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"))
	case version != strconv.FormatUint(old.version, 10) || d.identity.UID != "" && d.identity.UID != old.uid:
		return nil, apierrors.NewConflict(groupResource(request.Resource), request.Name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return s.store(k, request.Namespace, request.Name, d, true), nil
}

func (s *Server) delete(w http.ResponseWriter, _ *http.Request, request Request) {
	s.mu.Lock()
	old := s.remove(s.kinds[request.Resource], request.Namespace, request.Name)
	s.mu.Unlock()
	if old == nil {
		answerError(w, apierrors.NewNotFound(groupResource(request.Resource), request.Name))
		return
	}
	answer(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: request.Name, Group: Group, Kind: request.Resource},
	})
}

func (s *Server) invalid(request Request, name string, problem *field.Error) *apierrors.StatusError {
	kind := schema.GroupKind{Group: Group, Kind: s.kinds[request.Resource].objectKind}
	return apierrors.NewInvalid(kind, name, field.ErrorList{problem})
}
