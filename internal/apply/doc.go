// SPDX-License-Identifier: Apache-2.0

// Package apply writes into the cluster what the backend says: PutObject,
// PatchObject and DeleteObject.
//
// The backend does not see objects as they are: the policy has masked and removed
// parts of them. So an object that exists is never replaced by what the backend
// sent. Three documents are laid over each other: the current object, the
// current object as the policy shows it, and the desired one. What differs
// between the last two is done to the first, and everything else of it stays,
// byte for byte:
//
//	current   {"env":[{"name":"KEY","value":"s3cret"}],"replicas":1}
//	shown     {"env":[{"name":"KEY","value":"XXXXXX"}],"replicas":1}
//	desired   {"env":[{"name":"KEY","value":"XXXXXX"}],"replicas":3}
//	written   {"env":[{"name":"KEY","value":"s3cret"}],"replicas":3}
//
// Elements of arrays are laid over each other by their member name, or else by
// being equal. A mask that would be written all the same is refused.
//
// Of metadata all that exists stays; labels and annotations that are absent are
// added. What the API server owns is never sent, but for the resourceVersion that
// an update expects. The status is not ours to write: in an update it is sent as
// it is, because a custom resource without the status subresource would lose it.
// A member that is null counts as absent, so creationTimestamp: null, in whatever
// place, is no difference.
//
// OperatorCommand objects are orders, not state: they are created once, never
// changed, and not created when they are known to have been carried out.
package apply
