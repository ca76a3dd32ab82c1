// SPDX-License-Identifier: Apache-2.0

// Package policy decides what of an object leaves the cluster.
//
// A Transform is an editor of bytes: the result is the document as the API server
// wrote it, but for the places that a rule removes or replaces. Numbers, escapes,
// white space and the order of members stay. The default rules (design 04 §4.3,
// compatibility level 1):
//
//   - metadata.managedFields is removed, and so are the annotations
//     kubectl.kubernetes.io/last-applied-configuration and
//     kubescape.io/sync-checksum. An annotations object that becomes empty stays,
//     as {}: nothing is removed but what a rule names. (The recordings from the
//     field hold no such object.)
//   - nodes lose status.conditions; sbomsyftfiltereds, and on link v2 sbomsyfts,
//     lose spec.syft.descriptor, files and artifactRelationships. On link v1 these
//     members become null instead, if they are there.
//   - Environment values are masked: in every array that is a member named env, at
//     any depth of any kind, the member value of every element becomes "XXXXXX".
//     That covers pods, every pod template and CRDs that hold containers under
//     other names. It is wider than containers, initContainers and
//     ephemeralContainers on purpose: masking too much is repaired by a rule,
//     masking too little is not. An empty string and a value of another type are
//     masked too; an absent or null one and valueFrom stay.
//   - Secrets, where a configuration lets them through at all, have every value of
//     stringData replaced by "XXXXXX" and of data by "WFhYWFhY", which is the same
//     in base64, so that the object stays a valid Secret.
//
// Every one of duplicate members is edited, so no reader's choice among them
// shows what a rule hides. A document that is not JSON is an error, never passed on.
//
// # Rules
//
// A Rule adds to that for some kinds and namespaces. The order of rules does not
// matter and no rule weakens another one: for each value the strongest action holds,
// drop before mask before hash, and a value stays only if every keep-only rule on its
// subtree keeps it. Reveal lifts the built-in masks, nothing else; what is removed by
// default stays removed, because it may hold copies of what is hidden elsewhere.
// What objects are told apart by (apiVersion, kind, and of metadata the name,
// namespace, uid, resourceVersion, labels and ownerReferences) no rule may touch.
//
// Mask and hash replace a value as a whole, whatever its type, by a string; null
// stays. In data of a Secret that string is in base64. A path that meets a value of
// another type than it needs (an object for a name or *, an array for [*]) ends
// there: it names nothing, so a keep-only rule removes the value.
//
// Rules are compiled, once for each kind and set of matching rules, into a graph that
// the editor follows while it reads; the number of rules costs no further pass.
package policy
