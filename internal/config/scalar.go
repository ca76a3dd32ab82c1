// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
)

var (
	errNotNumber  = errors.New("is not a number")
	errNotWhole   = errors.New("is not a whole number")
	errNotBoolean = errors.New("is not true or false")
)

// setScalar converts a text, number or boolean as the field's reader does. An empty text where a
// number is expected leaves the default. Errors do not repeat the value.
func setScalar(target reflect.Value, v *value) error {
	switch {
	case target.Kind() == reflect.String:
		target.SetString(v.text)
		return nil
	case target.Kind() == reflect.Bool:
		return setBool(target, v)
	case v.kind == 's' && strings.TrimSpace(v.text) == "":
		return nil
	case target.Type() == typeDuration:
		if v.kind == 'b' {
			return errSyntax
		}
		d, err := parseDuration(v.text)
		if err == nil {
			target.SetInt(int64(d))
		}
		return err
	case target.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(strings.TrimSpace(v.text), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return errNotNumber
		}
		target.SetFloat(f)
		return nil
	default:
		return setInt(target, v)
	}
}

func setBool(target reflect.Value, v *value) error {
	if v.kind == 'n' {
		f, err := strconv.ParseFloat(v.text, 64)
		target.SetBool(err == nil && f != 0)
		return nil
	}
	if v.text == "" {
		target.SetBool(false)
		return nil
	}
	b, err := strconv.ParseBool(strings.TrimSpace(v.text))
	if err != nil {
		return errNotBoolean
	}
	target.SetBool(b)
	return nil
}

// setInt takes 8089, 8089.0, 1e3, "8089" and "0x1f99". Seconds saturate, because what an
// overflowing one means depends on the key; other numbers must fit.
func setInt(target reflect.Value, v *value) error {
	if v.kind == 'b' {
		return errNotNumber
	}
	text := strings.TrimSpace(v.text)
	number, err := strconv.ParseInt(text, 0, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		// "08" is no octal number, and a port with a leading zero is meant as decimal.
		if n, decimal := strconv.ParseInt(text, 10, 64); decimal == nil {
			number, err = n, nil
		}
	}
	if errors.Is(err, strconv.ErrSyntax) {
		number, err = wholeFloat(text)
	}
	saturates := target.Type() == typeSeconds
	switch {
	case errors.Is(err, strconv.ErrRange) && saturates: // ParseInt gave the nearest number
	case errors.Is(err, strconv.ErrRange) || err == nil && target.OverflowInt(number):
		return errTooLarge
	case err != nil:
		return err
	}
	target.SetInt(number)
	return nil
}

// wholeFloat reads a number in floating-point form that has no fraction. Its range error comes
// with the nearest number, like that of ParseInt.
func wholeFloat(text string) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax) || math.IsNaN(f):
		return 0, errNotNumber
	case f >= math.MaxInt64:
		return math.MaxInt64, strconv.ErrRange
	case f < math.MinInt64:
		return math.MinInt64, strconv.ErrRange
	case f != math.Trunc(f):
		return 0, errNotWhole
	}
	return int64(f), nil
}
