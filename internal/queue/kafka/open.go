// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
)

const (
	// tryTimeout bounds one try to connect and to look at the topics.
	tryTimeout = 15 * time.Second
	topicPause = 20 * time.Millisecond
)

// finalError is one after which trying again is pointless.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func final(format string, args ...any) error { return finalError{fmt.Errorf(format, args...)} }

func isFinal(err error) bool {
	var f finalError
	return errors.As(err, &f)
}

// Open connects, creates or checks the topics, and returns the queue. It tries
// StartRetries times; refused credentials end it at once, with an error that wraps
// ErrUnauthorized. Settings that cannot work wrap ErrInvalid, topics that are
// required and missing ErrNotFound.
func Open(ctx context.Context, config Config) (*Queue, error) {
	config.setDefaults()
	if config.OutTopic == "" || config.InTopic == "" {
		return nil, invalid("producerTopic", "both topics need a name")
	}
	if len(slices.Compact(slices.Sorted(slices.Values(config.topics())))) != 3 {
		return nil, invalid("consumerTopic", "topics must differ: %s", strings.Join(config.topics(), ", "))
	}
	// The library refuses smaller batches, and sizes are 32 bits on the wire.
	if config.MaxMessageBytes < 1024 || config.MaxMessageBytes > 1<<30 {
		return nil, invalid("maxMessageBytes", "%d is not between 1024 and %d", config.MaxMessageBytes, 1<<30)
	}
	codecs, err := config.codecs()
	if err != nil {
		return nil, err
	}
	watch := newWatcher(config.Logger)
	options, err := config.clientOptions(watch)
	if err != nil {
		return nil, err
	}
	if err := config.connect(ctx, options); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(codecs...),
		kgo.ProducerBatchMaxBytes(int32(config.MaxMessageBytes)),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(math.MaxInt32), // bounded by the window
		kgo.UnknownTopicRetries(-1),
	)...)
	if err != nil {
		return nil, fmt.Errorf("making Kafka client: %w", err)
	}
	return newQueue(config, watch, client), nil
}

// connect tries until the brokers answer and the topics are right.
func (c *Config) connect(ctx context.Context, options []kgo.Opt) error {
	servers := strings.Join(c.BootstrapServers, ", ")
	// Retrying is done here, so that each try has its time and its pause.
	client, err := kgo.NewClient(append(options, kgo.RequestRetries(1), kgo.RetryTimeout(tryTimeout))...)
	if err != nil {
		return fmt.Errorf("making Kafka client: %w", err)
	}
	defer client.Close()
	for try := 1; ; try++ {
		err := c.tryOnce(ctx, client)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("connecting to Kafka at %s: %w (%w)", servers, context.Cause(ctx), err)
		case refused(err):
			return fmt.Errorf("connecting to Kafka at %s: %w: %w; look at %ssecurityProtocol, sasl… and tls…",
				servers, synchronizer.ErrUnauthorized, err, section)
		case isFinal(err):
			return err
		case try >= c.StartRetries:
			return fmt.Errorf("connecting to Kafka at %s (%sbootstrapServers), tried %d times: %w", servers, section, try, err)
		}
		c.Logger.Warn("Kafka is not ready; trying again", "servers", servers, "try", try, "of", c.StartRetries, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(c.StartPause):
		}
	}
}

func (c *Config) tryOnce(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	return c.prepareTopics(ctx, kadm.NewClient(client))
}

// refused tells that the broker, or this side, does not accept the other's
// credentials.
func refused(err error) bool {
	for _, code := range []error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState} {
		if errors.Is(err, code) {
			return true
		}
	}
	var verify *tls.CertificateVerificationError
	var op *net.OpError // "remote error" is an alert of TLS, such as a missing certificate
	return errors.As(err, &verify) || errors.As(err, &op) && op.Op == "remote error"
}

// prepareTopics creates what is missing, unless it is required, and checks that
// records of the configured size fit.
func (c *Config) prepareTopics(ctx context.Context, admin *kadm.Client) error {
	// The client never lets a look at topics create them.
	details, err := admin.ListTopics(ctx, c.topics()...)
	if err != nil {
		return fmt.Errorf("reading topics: %w", err)
	}
	var missing []string
	for _, topic := range c.topics() {
		d, ok := details[topic]
		switch {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			missing = append(missing, topic)
		case errors.Is(d.Err, kerr.InvalidTopicException):
			return final("%w: topic %q has a name that Kafka does not allow", synchronizer.ErrInvalid, topic)
		case d.Err != nil:
			return fmt.Errorf("reading topic %s: %w", topic, d.Err)
		}
	}
	if len(missing) > 0 && c.RequireTopicsExist {
		return fmt.Errorf("%w: missing topics: %s; create them, or set %srequireTopicsExist to false",
			synchronizer.ErrNotFound, strings.Join(missing, ", "), section)
	}
	for _, topic := range missing {
		if err := c.createTopic(ctx, admin, topic); err != nil {
			return err
		}
	}
	// What was created is not known to all brokers at once.
	for {
		err := c.checkSizes(ctx, admin)
		if !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(topicPause):
		}
	}
}

func (c *Config) createTopic(ctx context.Context, admin *kadm.Client, topic string) error {
	size := strconv.Itoa(c.MaxMessageBytes)
	_, err := admin.CreateTopic(ctx, int32(c.Partitions), -1, map[string]*string{maxMessage: &size}, topic)
	if errors.Is(err, kerr.PolicyViolation) || errors.Is(err, kerr.InvalidConfig) {
		// Then with the broker's own size, which is checked next.
		_, err = admin.CreateTopic(ctx, int32(c.Partitions), -1, nil, topic)
	}
	switch {
	case err == nil:
		c.Logger.Info("created Kafka topic", "topic", topic, "partitions", c.Partitions)
		return nil
	case errors.Is(err, kerr.TopicAlreadyExists): // another process was faster
		return nil
	case errors.Is(err, kerr.InvalidTopicException):
		return final("creating topic %q: %w: %w", topic, synchronizer.ErrInvalid, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return final("creating topic %s: %w: this user may not; create it with %s=%d",
			topic, synchronizer.ErrForbidden, maxMessage, c.MaxMessageBytes)
	}
	return fmt.Errorf("creating topic %s: %w", topic, err)
}

const maxMessage = "max.message.bytes"

func (c *Config) checkSizes(ctx context.Context, admin *kadm.Client) error {
	configs, err := admin.DescribeTopicConfigs(ctx, c.topics()...)
	if err != nil {
		return fmt.Errorf("reading settings of topics: %w", err)
	}
	for _, topic := range configs {
		if errors.Is(topic.Err, kerr.TopicAuthorizationFailed) || errors.Is(topic.Err, kerr.ClusterAuthorizationFailed) {
			c.Logger.Warn("the settings of a Kafka topic may not be read, so it is not known whether large records fit",
				"topic", topic.Name, "setting", maxMessage, "needed", c.MaxMessageBytes)
			continue
		}
		if topic.Err != nil {
			return fmt.Errorf("reading settings of topic %s: %w", topic.Name, topic.Err)
		}
		for _, setting := range topic.Configs {
			if setting.Key != maxMessage || setting.Value == nil {
				continue
			}
			if allowed, err := strconv.Atoi(*setting.Value); err == nil && allowed < c.MaxMessageBytes {
				return final("%w: topic %s allows records of %d bytes (%s), %smaxMessageBytes is %d: raise the topic's setting to %d, or lower maxMessageBytes to %d",
					synchronizer.ErrInvalid, topic.Name, allowed, maxMessage, section, c.MaxMessageBytes, c.MaxMessageBytes, allowed)
			}
		}
	}
	return nil
}
