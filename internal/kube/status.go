// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"synchronizer"
)

// statusLimit bounds what is read of an error; its message goes into a log line.
const statusLimit = 64 << 10

// maxRetryAfter bounds what a server can ask for, so that a bad header does not
// stop a kind for a day.
const maxRetryAfter = 10 * time.Minute

// status is the part of a metav1.Status that behaviour depends on.
type status struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		Name              string `json:"name"`
		RetryAfterSeconds int64  `json:"retryAfterSeconds"`
	} `json:"details"`
}

// readStatus reads raw as far as it is a Status.
func readStatus(raw []byte) status {
	var s status
	if json.Unmarshal(raw, &s) != nil || s.Kind != "Status" {
		return status{}
	}
	return s
}

// readFailure reads the body of an answer that is not a success.
func readFailure(response *http.Response) status {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, statusLimit))
	s := readStatus(raw)
	s.Code = response.StatusCode
	return s
}

// err is what s means to the caller; header holds the answer's, if it has any.
func (s status) err(header http.Header) error {
	message := s.Message
	if message == "" {
		message = http.StatusText(s.Code)
	}
	if len(message) > 500 {
		message = message[:500]
	}
	message = fmt.Sprintf("API server answered %d: %q", s.Code, message)
	switch s.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %s", synchronizer.ErrForbidden, message)
	case http.StatusNotFound:
		return fmt.Errorf("%w: %s", synchronizer.ErrKindNotServed, message)
	case http.StatusGone:
		return fmt.Errorf("%w: %s", synchronizer.ErrGone, message)
	}
	err := fmt.Errorf("%s", message)
	if after := s.retryAfter(header); after > 0 {
		return &synchronizer.RetryAfterError{After: after, Err: err}
	}
	return err
}

// retryAfter is the pause that the server asked for, 0 if it did not.
func (s status) retryAfter(header http.Header) time.Duration {
	seconds := s.Details.RetryAfterSeconds
	value := header.Get("Retry-After")
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		seconds = n
	} else if at, err := http.ParseTime(value); err == nil {
		seconds = int64(time.Until(at)/time.Second) + 1
	}
	if seconds <= 0 && s.Code == http.StatusTooManyRequests {
		seconds = 1
	}
	return min(time.Duration(max(0, min(seconds, 1<<20)))*time.Second, maxRetryAfter)
}
