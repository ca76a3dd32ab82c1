// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// queue checks the section of the queue that is chosen.
func (k *checker) queue(b *Backend) {
	switch b.QueueType() {
	case QueuePulsar:
		k.pulsar(b)
	case QueueKafka:
		k.kafka(b.MessageQueue.KafkaConfig)
	case QueueNATS:
		k.nats(b.MessageQueue.NATSConfig)
	}
}

func (k *checker) pulsar(b *Backend) {
	const path = "backend.pulsarConfig"
	p := b.PulsarConfig
	if p == nil {
		k.problem(path, "missing: messageQueue.type is pulsar")
		return
	}
	secure := k.brokerURL(path+".url", p.URL, "pulsar://127.0.0.1:6650", []string{"pulsar"}, []string{"pulsar+ssl"})
	if p.AdminURL != "" {
		k.brokerURL(path+".adminUrl", p.AdminURL, "http://127.0.0.1:8081", []string{"http"}, []string{"https"})
	}
	for _, text := range []struct{ path, value string }{
		{path + ".tenant", p.Tenant},
		{path + ".namespace", p.Namespace},
		{"backend.producerTopic", b.ProducerTopic},
		{"backend.consumerTopic", b.ConsumerTopic},
	} {
		switch {
		case text.value == "":
			k.problem(text.path, "must not be empty")
		case strings.ContainsAny(text.value, "/ ") || strings.Contains(text.value, "://"):
			k.problem(text.path, "%q must be a plain name, without slashes", text.value)
		}
	}
	if p.Token.Reveal() != "" && p.TokenPath != "" {
		k.problem(path+".tokenPath", "the token is given twice: remove token or tokenPath")
	}
	k.readable(path+".tokenPath", p.TokenPath)
	k.brokerTLS(path, secure, "a pulsar+ssl:// address in url", p.TLSCACertPath, p.TLSCertPath, p.TLSKeyPath)
	if k.config.Ingester.Subscription == "" {
		k.problem("ingester.subscription", "must not be empty")
	}
}

func (k *checker) kafka(c *KafkaConfig) {
	const path = "backend.messageQueue.kafkaConfig"
	if c == nil {
		k.problem(path, "missing: messageQueue.type is kafka")
		return
	}
	k.addresses(path+".bootstrapServers", c.BootstrapServers, "127.0.0.1:9092")
	if c.ProducerTopic == "" {
		k.problem(path+".producerTopic", "must not be empty")
	}
	if c.ConsumerTopic == "" {
		k.problem(path+".consumerTopic", "must not be empty")
	}
	if c.ProducerTopic == c.ConsumerTopic && c.ProducerTopic != "" {
		k.problem(path+".consumerTopic", "is the same topic as producerTopic: the server would read what it writes")
	}
	secure := strings.HasSuffix(c.SecurityProtocol, "SSL")
	if strings.HasPrefix(c.SecurityProtocol, "SASL_") {
		k.sasl(path, c, secure)
	} else {
		for _, set := range []struct{ key, value string }{
			{"saslMechanism", c.SASLMechanism},
			{"saslUsername", c.SASLUsername},
			{"saslPassword", c.SASLPassword.Reveal()},
		} {
			if set.value != "" {
				k.problem(path+"."+set.key, "needs securityProtocol SASL_SSL or SASL_PLAINTEXT; it is %s", c.SecurityProtocol)
			}
		}
	}
	k.brokerTLS(path, secure, "securityProtocol SSL or SASL_SSL", c.TLSCACertPath, c.TLSCertPath, c.TLSKeyPath)
	if c.MaxMessageBytes > maxRecordBytes {
		k.problem(path+".maxMessageBytes", "must be at most %d", maxRecordBytes)
	}
}

// maxRecordBytes is what brokers can count.
const maxRecordBytes = 1<<31 - 1

func (k *checker) sasl(path string, c *KafkaConfig, secure bool) {
	if c.SASLMechanism == "" {
		k.problem(path+".saslMechanism", "missing: securityProtocol %s needs PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", c.SecurityProtocol)
	}
	if c.SASLMechanism == "PLAIN" && !secure {
		k.problem(path+".saslMechanism", "PLAIN would send the password in the clear: use securityProtocol SASL_SSL")
	}
	if c.SASLUsername == "" {
		k.problem(path+".saslUsername", "missing: securityProtocol %s needs it", c.SecurityProtocol)
	}
	if c.SASLPassword.Reveal() == "" {
		k.problem(path+".saslPassword", "missing: securityProtocol %s needs it", c.SecurityProtocol)
	}
}

func (k *checker) nats(c *NATSConfig) {
	const path = "backend.messageQueue.natsConfig"
	if c == nil {
		k.problem(path, "missing: messageQueue.type is nats")
		return
	}
	if len(c.Servers) == 0 {
		k.problem(path+".servers", `missing: list them like ["nats://127.0.0.1:4222"]`)
	}
	for i, server := range c.Servers {
		k.brokerURL(path+".servers["+strconv.Itoa(i)+"]", server, "nats://127.0.0.1:4222", []string{"nats"}, []string{"tls"})
	}
	if c.Prefix == "" || strings.ContainsAny(c.Prefix, ".*> \t\r\n/\\") {
		k.problem(path+".prefix", "%q must be one token of a subject: no dots, blanks, slashes or wildcards", c.Prefix)
	}
	if c.Replicas > 5 {
		k.problem(path+".replicas", "must be at most 5")
	}
	var ways []string
	for _, way := range []struct{ key, value string }{
		{"user", c.User},
		{"token", c.Token.Reveal()},
		{"nkeyPath", c.NKeyPath},
		{"credsPath", c.CredsPath},
	} {
		if way.value != "" {
			ways = append(ways, way.key)
		}
	}
	if len(ways) > 1 {
		k.problem(path, "%s are different ways to log in: keep one", strings.Join(ways, ", "))
	}
	if (c.User == "") != (c.Password.Reveal() == "") {
		k.problem(path+".user", "user and password belong together")
	}
	k.readable(path+".nkeyPath", c.NKeyPath)
	k.readable(path+".credsPath", c.CredsPath)
	// A server says itself whether it wants TLS, on addresses of either scheme.
	k.brokerTLS(path, true, "", c.TLSCACertPath, c.TLSCertPath, c.TLSKeyPath)
}

// brokerURL checks an address and tells whether it asks for TLS.
func (k *checker) brokerURL(path, text, example string, plain, secure []string) bool {
	u, err := url.Parse(text)
	schemes := slices.Concat(plain, secure)
	for i := range schemes {
		schemes[i] += "://"
	}
	switch {
	case text == "":
		k.problem(path, "missing: write it like %s", example)
	case err != nil || u.Host == "":
		k.problem(path, "is not an address: write it like %s", example)
	case !slices.Contains(plain, u.Scheme) && !slices.Contains(secure, u.Scheme):
		k.problem(path, "%q must begin with %s", redactURL(text), oneOf(schemes))
	case u.User != nil:
		k.problem(path, "%q must not contain a password: there are keys for that", redactURL(text))
	}
	return err == nil && slices.Contains(secure, u.Scheme)
}

func (k *checker) addresses(path string, list []string, example string) {
	if len(list) == 0 {
		k.problem(path, "missing: list them like [%q]", example)
	}
	for i, text := range list {
		k.address(path+"["+strconv.Itoa(i)+"]", text)
	}
}

// brokerTLS checks the files of a connection; secured says whether it uses TLS, which remedy
// turns on.
func (k *checker) brokerTLS(path string, secured bool, remedy, ca, cert, key string) {
	for _, file := range []struct{ key, name string }{{"tlsCaCertPath", ca}, {"tlsCertPath", cert}, {"tlsKeyPath", key}} {
		if file.name != "" && !secured {
			k.problem(path+"."+file.key, "has no effect without TLS: use %s", remedy)
			continue
		}
		k.readable(path+"."+file.key, file.name)
	}
	if (cert == "") != (key == "") {
		k.problem(path+".tlsCertPath", "tlsCertPath and tlsKeyPath belong together")
	}
}

// readable wants a file that is named to be there, when the whole configuration is checked.
func (k *checker) readable(path, name string) {
	if name == "" || !k.complete {
		return
	}
	f, err := os.Open(name)
	if err != nil {
		k.problem(path, "cannot be read: %v", err)
		return
	}
	_ = f.Close()
}
