// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"synchronizer"
)

// The JSON payloads of the field. The order of the members is the recorded one.

type objectPayload struct { // written by appendObject
	BaseObject      *[]byte `json:"baseObject,omitempty"` // Get only, and there even if it is null
	Checksum        *string `json:"checksum,omitempty"`   // Put, Patch, Verify
	Cluster         string  `json:"cluster"`
	Account         string  `json:"account"`
	Depth           int     `json:"depth"`
	Kind            string  `json:"kind"`
	MsgID           string  `json:"msgId"`
	Name            string  `json:"name"`
	Namespace       string  `json:"namespace"`
	Patch           *[]byte `json:"patch,omitempty"` // Put, Patch
	ResourceVersion zero    `json:"resourceVersion"`
}

// zero reads anything: the property holds the value.
type zero struct{}

func (*zero) UnmarshalJSON(_ []byte) error { return nil }

type connectedPayload struct { // ServerConnected
	Cluster string `json:"cluster"`
	Account string `json:"account"`
	Depth   int    `json:"depth"`
	MsgID   string `json:"msgId"`
}

type presentPayload struct { // IngesterPresent
	Depth int    `json:"depth"`
	MsgID string `json:"msgId"`
}

type clientsPayload struct { // ConnectedClients
	ServerName string          `json:"serverName"`
	Clients    []clientPayload `json:"clients"`
	KeepAlive  time.Time       `json:"keepalive"`
	Depth      int             `json:"depth"`
	MsgID      string          `json:"msgId"`
}

type clientPayload struct {
	Cluster             string    `json:"cluster"`
	Account             string    `json:"account"`
	SynchronizerVersion string    `json:"synchronizerVersion"`
	HelmVersion         string    `json:"helmVersion"`
	ConnectionID        string    `json:"connectionId"`
	ConnectionTime      time.Time `json:"connectionTime"`
	GitVersion          string    `json:"gitVersion"`
	CloudProvider       string    `json:"cloudProvider"`
	ClusterUID          string    `json:"clusterUID,omitempty"`
	ResourceGroup       string    `json:"resourceGroup,omitempty"`
}

type reconciliationPayload struct { // ReconciliationRequest
	Cluster         string                    `json:"cluster"`
	Account         string                    `json:"account"`
	Depth           int                       `json:"depth"`
	MsgID           string                    `json:"msgId"`
	ServerInitiated bool                      `json:"serverInitiated"`
	KindToObject    map[string][]knownPayload `json:"kindToObject"`
}

type knownPayload struct {
	Checksum        string `json:"checksum"`
	ResourceVersion int64  `json:"resourceVersion"`
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
}

type batchPayload struct { // ReconciliationRequestBatch
	Depth    int                     `json:"depth"`
	MsgID    string                  `json:"msgId"`
	Requests []reconciliationPayload `json:"requests"`
}

// payloadOf builds the JSON payload of m.
func payloadOf(m *synchronizer.Message) ([]byte, error) {
	var payload any
	switch m.Event {
	case synchronizer.EventServerConnected:
		payload = connectedPayload{Cluster: m.Cluster, Account: m.Account, Depth: m.Depth, MsgID: m.MsgID}
	case synchronizer.EventIngesterPresent:
		payload = presentPayload{Depth: m.Depth, MsgID: m.MsgID}
	case synchronizer.EventConnectedClients:
		if m.Clients == nil {
			return nil, fmt.Errorf("%w: %s without clients", synchronizer.ErrInvalid, m.Event)
		}
		payload = clientsOf(m)
	case synchronizer.EventReconciliation:
		p, err := reconciliationOf(m)
		if err != nil {
			return nil, err
		}
		payload = p
	case synchronizer.EventReconciliationBatch:
		batch := batchPayload{Depth: m.Depth, MsgID: m.MsgID, Requests: make([]reconciliationPayload, len(m.Requests))}
		for i := range m.Requests {
			request, err := reconciliationOf(&m.Requests[i])
			if err != nil {
				return nil, err
			}
			batch.Requests[i] = request
		}
		payload = batch
	default:
		return appendObject(m), nil
	}
	data, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("%w: writing payload of %s: %w", synchronizer.ErrInvalid, m.Event, err)
	}
	return data, nil
}

// appendObject writes an objectPayload as encoding/json would, in one piece of
// memory: most of it is base64, and every object of a server passes here.
func appendObject(m *synchronizer.Message) []byte {
	kind := m.Kind.String()
	size := 192 + len(m.Cluster) + len(m.Account) + len(kind) + len(m.MsgID) + len(m.Name) + len(m.Namespace) + len(m.Checksum) +
		base64.StdEncoding.EncodedLen(len(m.Body))
	b := append(make([]byte, 0, size), '{')
	if m.Event == synchronizer.EventGet {
		b = append(b, `"baseObject":`...)
		if m.Body == nil {
			b = append(b, "null"...)
		} else {
			b = appendBase64(b, m.Body)
		}
		b = append(b, ',')
	} else if m.Event != synchronizer.EventDelete {
		b = append(appendText(append(b, `"checksum":`...), m.Checksum), ',')
	}
	b = appendText(append(b, `"cluster":`...), m.Cluster)
	b = appendText(append(b, `,"account":`...), m.Account)
	b = strconv.AppendInt(append(b, `,"depth":`...), int64(m.Depth), 10)
	b = appendText(append(b, `,"kind":`...), kind)
	b = appendText(append(b, `,"msgId":`...), m.MsgID)
	b = appendText(append(b, `,"name":`...), m.Name)
	b = appendText(append(b, `,"namespace":`...), m.Namespace)
	if m.Event == synchronizer.EventPut || m.Event == synchronizer.EventPatch {
		b = appendBase64(append(b, `,"patch":`...), m.Body) // "" and not null
	}
	return append(b, `,"resourceVersion":0}`...)
}

func appendBase64(b, body []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), body), '"')
}

// appendText writes a string of JSON. What encoding/json would escape it writes.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string has no error
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func clientsOf(m *synchronizer.Message) clientsPayload {
	p := clientsPayload{
		ServerName: m.Clients.ServerName, Clients: make([]clientPayload, len(m.Clients.Clients)),
		KeepAlive: m.Clients.KeepAlive, Depth: m.Depth, MsgID: m.MsgID,
	}
	for i := range m.Clients.Clients {
		c := &m.Clients.Clients[i]
		p.Clients[i] = clientPayload{
			Cluster: c.Cluster, Account: c.Account, SynchronizerVersion: c.SynchronizerVersion,
			HelmVersion: c.HelmVersion, ConnectionID: c.ConnectionID, ConnectionTime: c.ConnectionTime,
			GitVersion: c.GitVersion, CloudProvider: c.CloudProvider, ClusterUID: c.ClusterUID,
			ResourceGroup: c.ResourceGroup,
		}
	}
	return p
}

func reconciliationOf(m *synchronizer.Message) (reconciliationPayload, error) {
	p := reconciliationPayload{
		Cluster: m.Cluster, Account: m.Account, Depth: m.Depth, MsgID: m.MsgID, ServerInitiated: m.ServerInitiated,
	}
	if err := m.ClusterID.Validate(); err != nil {
		return p, err
	}
	if m.Known == nil {
		return p, nil
	}
	p.KindToObject = make(map[string][]knownPayload, len(m.Known))
	for kind, known := range m.Known {
		if !kind.Valid() {
			return p, fmt.Errorf("%w: kind %q in a reconciliation", synchronizer.ErrInvalid, kind)
		}
		list := make([]knownPayload, len(known))
		for i, k := range known {
			list[i] = knownPayload{Checksum: k.Checksum, ResourceVersion: k.ResourceVersion, Name: k.Name, Namespace: k.Namespace}
		}
		p.KindToObject[kind.String()] = list
	}
	return p, nil
}

func (p *clientsPayload) message(m *synchronizer.Message) {
	m.Depth, m.MsgID = p.Depth, p.MsgID
	clients := make([]synchronizer.ConnectedClient, len(p.Clients))
	for i := range p.Clients {
		c := &p.Clients[i]
		clients[i] = synchronizer.ConnectedClient{
			Hello: synchronizer.Hello{
				ClusterID:           synchronizer.ClusterID{Account: c.Account, Cluster: c.Cluster},
				SynchronizerVersion: c.SynchronizerVersion, HelmVersion: c.HelmVersion, GitVersion: c.GitVersion,
				CloudProvider: c.CloudProvider, ClusterUID: c.ClusterUID, ResourceGroup: c.ResourceGroup,
			},
			ConnectionID: c.ConnectionID, ConnectionTime: c.ConnectionTime,
		}
	}
	m.Clients = &synchronizer.ConnectedClients{ServerName: p.ServerName, Clients: clients, KeepAlive: p.KeepAlive}
}

// message fills m and returns what it could not read.
func (p *reconciliationPayload) message(m *synchronizer.Message) (left []error) {
	m.Depth, m.MsgID, m.ServerInitiated = p.Depth, p.MsgID, p.ServerInitiated
	if p.KindToObject == nil {
		return nil
	}
	m.Known = make(map[synchronizer.Kind][]synchronizer.KnownObject, len(p.KindToObject))
	for text, list := range p.KindToObject {
		kind, err := synchronizer.ParseKind(text)
		if err != nil {
			left = append(left, fmt.Errorf("reading the list of a kind: %w", err))
			continue
		}
		known := make([]synchronizer.KnownObject, len(list))
		for i, k := range list {
			known[i] = synchronizer.KnownObject{Namespace: k.Namespace, Name: k.Name, ResourceVersion: k.ResourceVersion, Checksum: k.Checksum}
		}
		m.Known[kind] = known
	}
	return left
}

// unmarshal reads a payload; what is not JSON of the right types can never be
// accepted.
func unmarshal(payload []byte, event synchronizer.Event, into any) error {
	if err := json.Unmarshal(payload, into); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("%w: payload of %s is not JSON: %w", synchronizer.ErrInvalid, event, err)
		}
		return fmt.Errorf("%w: payload of %s: %w", synchronizer.ErrInvalid, event, err)
	}
	return nil
}
