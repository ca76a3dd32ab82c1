// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"

	"synchronizer"
)

var _ synchronizer.Reachable = (*Queue)(nil)

// reasonTime is kept of the time for an answer, to find out why there is none.
const reasonTime = time.Second

var errSilent = errors.New("no answer in time")

// Reachable implements synchronizer.Reachable: both clients ask for a topic.
func (q *Queue) Reachable(ctx context.Context) error {
	ctx, done, err := q.enter(ctx)
	if err != nil {
		return fmt.Errorf("asking Pulsar at %s: %w", q.config.URL, err)
	}
	defer done()
	asking, cancel := context.WithTimeoutCause(ctx, askTime(ctx), errSilent)
	defer cancel()
	for _, ask := range []struct {
		by    client.Client
		topic string
	}{
		{q.write, q.config.topic(synchronizer.Out)},
		{q.read, q.config.topic(synchronizer.In)},
	} {
		if _, err := within(asking, q, func() ([]string, error) { return ask.by.TopicPartitions(ask.topic) }, func([]string) {}); err != nil {
			return fmt.Errorf("asking Pulsar at %s for topic %s: %w", q.config.URL, ask.topic, errors.Join(err, q.reason(ctx)))
		}
	}
	return nil
}

// askTime leaves time for a reason.
func askTime(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return operationTimeout
	}
	left := time.Until(deadline)
	return min(operationTimeout, max(left-reasonTime, left/2))
}

// reason finds out in what way the brokers cannot be reached, since the library only
// tries again until its time is over. It is nil if one of them lets us in, or the
// queue was closed.
func (q *Queue) reason(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	secure, err := q.config.tls()
	if err != nil {
		return err
	}
	if _, withTLS, err := q.config.brokers(); err != nil {
		return err
	} else if !withTLS {
		secure = nil
	}
	token, err := q.config.token()
	if err != nil {
		return err
	}
	_, err = anyBroker(ctx, &q.config, secure, token)
	return err
}

// anyBroker shakes hands with the first broker that does, and returns the size of
// its largest message.
func anyBroker(ctx context.Context, config *Config, secure *tls.Config, token string) (maxMessage int, err error) {
	hosts, _, err := config.brokers()
	if err != nil {
		return 0, err
	}
	method := ""
	switch {
	case token != "":
		method = "token"
	case config.CertFile != "":
		method = "tls"
	}
	var all []error
	for _, host := range hosts {
		if maxMessage, err = handshake(ctx, host, secure, method, token); err == nil {
			return maxMessage, nil
		}
		all = append(all, fmt.Errorf("broker %s: %w", host, err))
	}
	return 0, errors.Join(all...)
}
