// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"fmt"
	"strings"
)

// ClusterID names one cluster of one account. Two accounts may use the same
// cluster name, so maps are keyed by the pair, never by the name.
type ClusterID struct {
	Account string
	Cluster string
}

// Validate refuses what cannot be a partition key: an empty part, or an account
// that contains "/".
func (id ClusterID) Validate() error {
	switch {
	case id.Account == "":
		return fmt.Errorf("%w: account is empty", ErrInvalid)
	case strings.Contains(id.Account, "/"):
		return fmt.Errorf("%w: account %q contains a slash", ErrInvalid, id.Account)
	case id.Cluster == "":
		return fmt.Errorf("%w: cluster is empty", ErrInvalid)
	}
	return nil
}

// String is "account/cluster", which is also the partition key of its records.
func (id ClusterID) String() string { return id.Account + "/" + id.Cluster }

// ObjectKey names one object of one cluster. Namespace is empty for
// cluster-scoped objects. The uid is not part of the key: an object that is
// deleted and created again under its name is the same row.
type ObjectKey struct {
	ClusterID
	Kind      Kind
	Namespace string
	Name      string
}

// String is "account/cluster group/version/resource namespace/name", for people.
func (k ObjectKey) String() string {
	return k.ClusterID.String() + " " + k.Kind.String() + " " + k.Namespace + "/" + k.Name
}

// Object is an object as the API server gave it.
type Object struct {
	Namespace       string
	Name            string
	UID             string
	ResourceVersion string // opaque text, never compared by size
	// Body is the raw JSON with apiVersion and kind, exact bytes. It is only
	// valid during the call that hands it over, unless that call says otherwise.
	Body []byte
	// Err is set when the identity could be read but the body could not: such an
	// object is present in the cluster, and not carried.
	Err error
}
