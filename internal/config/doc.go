// SPDX-License-Identifier: Apache-2.0

// Package config reads, checks and describes the configuration of client and server.
//
// There is one struct tree ([Config]), one function of defaults ([Default]) and one
// validator ([Config.Validate]) that reports all problems at once, each with its path.
// What a key means is declared once, in the tables of fields_client.go and
// fields_server.go; the reference page, the JSON schema ([SchemaJSON]), the checks of
// ranges and choices, and the notices about keys that this version does not act on yet
// come from there. When a feature lands, delete the Status (or the entry in Lacking) of
// its key.
//
// Values come from, in rising order: the defaults, config.json, an environment variable
// named as the upper-cased dotted path (only for a key that is in the file), and, for keys
// that only this project has, SYNCHRONIZER_<SECTION>_<KEY>. For the client,
// clusterData.json, the services file, the credential files and CLUSTER_NAME follow.
//
// The reading rules are those that spf13/viper gives the files in the field: keys are
// case-insensitive, scalars convert, a text where a list is expected is split at commas.
// The reader is our own all the same, because viper lower-cases the keys of maps, forgets
// lines, stops at the first wrong value, cannot tell unknown keys of nested lists, and
// reads the environment of the process instead of one that a test hands in.
//
// The package imports nothing but the standard library and the nouns of the root package, so
// that the client stays small.
package config

//go:generate go run ./gen
