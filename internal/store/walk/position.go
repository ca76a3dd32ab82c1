// SPDX-License-Identifier: Apache-2.0

package walk

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"synchronizer"
)

// Position is how far a list has come: behind an object, or behind a kind. It
// only ever narrows a query, so a forged one shows nothing that the query itself
// would not.
type Position struct {
	Account, Cluster, Group, Version, Resource string
	KindDone                                   bool
	Namespace, Name                            string // unless KindDone
}

const positionVersion = 1

// token is the text form: base64 of a version, a flag and the texts with their
// lengths.
func (p *Position) token() string {
	b := []byte{positionVersion, 0}
	if p.KindDone {
		b[1] = 1
	}
	for _, text := range p.texts() {
		b = binary.AppendUvarint(b, uint64(len(*text)))
		b = append(b, *text...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func (p *Position) texts() []*string {
	return []*string{&p.Account, &p.Cluster, &p.Group, &p.Version, &p.Resource, &p.Namespace, &p.Name}
}

// parsePosition reads a token; nil for an empty one.
func parsePosition(token string) (*Position, error) {
	if token == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < 2 || b[0] != positionVersion || b[1] > 1 {
		return nil, errToken()
	}
	p := &Position{KindDone: b[1] == 1}
	b = b[2:]
	for _, text := range p.texts() {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return nil, errToken()
		}
		*text, b = string(b[n:n+int(length)]), b[n+int(length):]
	}
	if len(b) > 0 {
		return nil, errToken()
	}
	return p, nil
}

func errToken() error {
	return fmt.Errorf("%w: the continue token is none of this store; begin the list again", synchronizer.ErrInvalid)
}
