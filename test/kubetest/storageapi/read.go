// SPDX-License-Identifier: Apache-2.0

package storageapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fullSpec is the resourceVersion with which a list asks for whole objects.
const fullSpec = "fullSpec"

func (s *Server) get(w http.ResponseWriter, _ *http.Request, request Request) {
	s.mu.Lock()
	o := s.kinds[request.Resource].objects[request.Namespace+"/"+request.Name]
	s.mu.Unlock()
	if o == nil {
		answerError(w, apierrors.NewNotFound(groupResource(request.Resource), request.Name))
		return
	}
	answer(w, http.StatusOK, o.encode(false, true))
}

// token is where a list goes on. Pages behind the first show the present state,
// under the resourceVersion of the first.
type token struct {
	Version uint64 `json:"v"`
	After   string `json:"k"`
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request, request Request) {
	selected, err := readSelection(request)
	if err != nil {
		answerError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	version := request.Query.Get("resourceVersion")
	if _, err := strconv.ParseUint(version, 10, 64); version != "" && version != fullSpec && err != nil {
		answerError(w, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", version)))
		return
	}
	limit, _ := strconv.Atoi(request.Query.Get("limit")) // none if it is no number

	s.mu.Lock()
	k := s.kinds[request.Resource]
	at := token{Version: s.version}
	if text := request.Query.Get("continue"); text != "" {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || json.Unmarshal(raw, &at) != nil {
			s.mu.Unlock()
			answerError(w, apierrors.NewBadRequest("continue key is not valid"))
			return
		}
	}
	hollow := !k.behaviour.Full && (version != fullSpec || !k.fullList)
	items, next := []json.RawMessage{}, ""
	for _, key := range slices.Sorted(maps.Keys(k.objects)) {
		if o := k.objects[key]; key > at.After && selected.has(o) {
			if limit > 0 && len(items) == limit {
				raw, _ := json.Marshal(at) // a number and a string
				next = base64.RawURLEncoding.EncodeToString(raw)
				break
			}
			items = append(items, o.encode(hollow, false))
			at.After = key
		}
	}
	s.mu.Unlock()
	metadata := map[string]string{"resourceVersion": strconv.FormatUint(at.Version, 10)}
	if next != "" {
		metadata["continue"] = next
	}
	answer(w, http.StatusOK, map[string]any{
		"kind": k.objectKind + "List", "apiVersion": groupVersion, "metadata": metadata, "items": items,
	})
}
