// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/url"
	"reflect"
	"strings"
)

// Redacted returns a copy that can be printed: secrets are replaced, and user information is
// cut out of addresses.
func (c *Config) Redacted() *Config {
	return copyRedacted(reflect.ValueOf(c)).Interface().(*Config)
}

// copyRedacted copies the kinds of values that the struct tree is made of.
func copyRedacted(v reflect.Value) reflect.Value {
	result := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			result.Set(reflect.New(v.Type().Elem()))
			result.Elem().Set(copyRedacted(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			result.Field(i).Set(copyRedacted(v.Field(i)))
		}
	case reflect.Slice:
		if !v.IsNil() {
			result.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				result.Index(i).Set(copyRedacted(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			result.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for _, key := range v.MapKeys() {
				result.SetMapIndex(key, copyRedacted(v.MapIndex(key)))
			}
		}
	case reflect.String:
		text := redactURL(v.String())
		if v.Type() == typeSecret {
			text = Secret(v.String()).String()
		}
		result.SetString(text)
	default:
		result.Set(v)
	}
	return result
}

// redactURL cuts user and password out of an address; other texts stay as they are.
func redactURL(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !strings.Contains(rest, "@") {
		return text
	}
	if u, err := url.Parse(text); err == nil {
		if u.User == nil {
			return text
		}
		u.User = nil
		return strings.Replace(u.String(), "://", "://"+redacted+"@", 1)
	}
	// Not parsable: everything up to the last @ may be a password.
	return scheme + "://" + redacted + rest[strings.LastIndex(rest, "@"):]
}
