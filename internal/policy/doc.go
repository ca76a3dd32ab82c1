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
package policy
