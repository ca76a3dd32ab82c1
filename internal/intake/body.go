// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/rawjson"
)

// maxNameBytes bounds names and namespaces, which become keys everywhere behind
// the endpoint. Kubernetes allows 253.
const maxNameBytes = 1024

// firstRead is how much memory a declared length alone can claim.
const firstRead = 64 << 10

// readBody reads a body of at most limit bytes, however it is framed.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *refusal) {
	tooLarge := &refusal{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body is larger than %d bytes", limit)}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	// One byte more than is declared, so that the end is seen without growing.
	body := make([]byte, 0, max(512, min(r.ContentLength, firstRead)+1))
	reader := http.MaxBytesReader(w, r.Body, limit)
	for {
		n, err := reader.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var exceeded *http.MaxBytesError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return body, nil
		case errors.As(err, &exceeded):
			return nil, tooLarge
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &refusal{status: http.StatusRequestTimeout, text: "the body did not arrive in time"}
		default:
			return nil, &refusal{status: http.StatusBadRequest, text: "the body is not complete"}
		}
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(2*cap(body), int(limit)+1))
			copy(grown, body)
			body = grown
		}
	}
}

// newMessage makes of a body what is said to the backend. The body becomes the
// message's, byte for byte. Its errors are for the caller.
func newMessage(resource Resource, body []byte) (synchronizer.Message, error) {
	meta, err := rawjson.Metadata(body)
	if err != nil {
		return synchronizer.Message{}, fmt.Errorf("reading the body: %w", err)
	}
	kind := resource.Kind
	if strings.ToLower(meta.APIVersion) != kind.GroupVersion() || strings.ToLower(meta.Kind) != kind.Resource {
		return synchronizer.Message{}, fmt.Errorf("the body must have apiVersion %q and, in any case of letters, kind %q", kind.GroupVersion(), kind.Resource)
	}
	msg := synchronizer.Message{
		Event: synchronizer.EventPut, Depth: 1, MsgID: uuid.NewString(), Kind: kind,
		Namespace: strings.ToLower(meta.Namespace), Name: strings.ToLower(meta.Name), Body: body,
	}
	if resource.Patch {
		msg.Event = synchronizer.EventPatch
	}
	for _, name := range []string{msg.Namespace, msg.Name} {
		if len(name) > maxNameBytes || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return synchronizer.Message{}, fmt.Errorf("metadata.name and metadata.namespace must have at most %d bytes and no control characters", maxNameBytes)
		}
	}
	msg.Checksum, _ = meta.Annotation(checksum.Annotation)
	return msg, nil
}
