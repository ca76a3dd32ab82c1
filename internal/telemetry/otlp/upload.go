// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	tries        = 5
	firstPause   = time.Second
	longestPause = 10 * time.Second
)

// uploader is the otlptrace.Client that posts requests.
type uploader struct {
	settings *settings
	client   *http.Client
	pause    time.Duration // before the second try
}

func newUploader(s *settings) *uploader {
	return &uploader{settings: s, pause: firstPause, client: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.tls, ForceAttemptHTTP2: true,
			MaxIdleConns: 1, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: s.timeout,
		},
		Timeout: s.timeout,
		// They would take the headers to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Start implements otlptrace.Client.
func (*uploader) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (u *uploader) Stop(context.Context) error {
	u.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client: it tries some times what may pass.
func (u *uploader) UploadTraces(ctx context.Context, spans []*trace.ResourceSpans) error {
	body, err := u.encode(spans)
	if err != nil {
		return err
	}
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = u.pause, longestPause
	for try := 1; ; try++ {
		again, err := u.post(ctx, body)
		if err == nil || again < 0 || try == tries {
			return err
		}
		pause := policy.NextBackOff()
		if again > 0 {
			pause = min(again, longestPause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// encode writes an ExportTraceServiceRequest: its only field is the first one, the
// list of spans. The type itself is in a package that links gRPC.
func (u *uploader) encode(spans []*trace.ResourceSpans) ([]byte, error) {
	var body []byte
	for _, s := range spans {
		one, err := proto.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encoding spans: %w", err)
		}
		body = protowire.AppendTag(body, 1, protowire.BytesType)
		body = protowire.AppendBytes(body, one)
	}
	if !u.settings.gzip {
		return body, nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(body); err != nil {
		return nil, fmt.Errorf("compressing spans: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing spans: %w", err)
	}
	return packed.Bytes(), nil
}

const longestAnswer = 64 << 10

// partError is that of a collector that has taken the rest.
type partError struct {
	rejected int64
	reason   string
}

func (e *partError) Error() string {
	return fmt.Sprintf("the collector does not take %d spans: %s", e.rejected, e.reason)
}

// readPart reads the ExportTraceServiceResponse of a collector: its first field holds
// how many spans were rejected (1), and why (2). What cannot be read rejects none.
func readPart(answer []byte) *partError {
	var e partError
	fields(answer, func(number protowire.Number, _ uint64, part []byte) {
		if number != 1 {
			return
		}
		fields(part, func(number protowire.Number, value uint64, text []byte) {
			switch number {
			case 1:
				e.rejected = int64(value)
			case 2:
				e.reason = string(text)
			}
		})
	})
	return &e
}

// fields calls each for the numbers and texts of a message, as far as it can be read.
func fields(message []byte, each func(number protowire.Number, value uint64, text []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		var value uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return
		}
		each(number, value, text)
		message = message[n:]
	}
}

// never says that another try is of no use.
const never = -1

// post makes one try. After an error it says when to try again: after a time that
// the collector names, when one likes (0), or never. The error names the host only.
func (u *uploader) post(ctx context.Context, body []byte) (again time.Duration, err error) {
	host := u.settings.endpoint.Host
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.settings.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return never, fmt.Errorf("making a request to %s: %w", host, errors.Unwrap(err))
	}
	for name, values := range u.settings.headers {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", "synchronizer")
	if u.settings.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := u.client.Do(request)
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // the rest repeats the URL
		}
		return 0, fmt.Errorf("posting spans to %s: %w", host, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, longestAnswer)) // so that the connection is used again
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		if part := readPart(answer); part.rejected > 0 {
			return never, part
		}
		return 0, nil
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return time.Duration(max(seconds, 0)) * time.Second, fmt.Errorf("posting spans to %s: HTTP %d", host, code)
	default:
		return never, fmt.Errorf("posting spans to %s: HTTP %d", host, code)
	}
}
