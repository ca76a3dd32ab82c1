// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/config"
)

// Where the tests are that effects names.
const (
	here     = "internal/app/server"
	scenario = "test/scenario"
)

// said is the test of keys that have no effect and say so.
const said = here + ".TestKeysWithoutEffectSaySo"

// effects names for each key of the section backend a test in which it changes what
// the program does: the folder of the test and its function. Where one test shows
// that the key reaches a part, and another what the part does with it, both stand.
var effects = map[string][]string{
	"backend.port":       {here + ".TestEffectOfPorts"},
	"backend.listen":     {here + ".TestEffectOfPorts", here + ".TestOpenErrors"},
	"backend.healthPort": {here + ".TestEffectOfPorts", here + ".TestOpenErrors"},
	"backend.dataDir":    {here + ".TestEffectOfFolders"},

	"backend.tls.certPath":                       {here + ".TestFoundOverTLS", "internal/telemetry.TestCertificateFollowsItsFiles"},
	"backend.tls.keyPath":                        {here + ".TestFoundOverTLS", here + ".TestCertificateThatCannotBeUsed"},
	"backend.publicUrl":                          {here + ".TestPublicURL"},
	"backend.serviceDiscovery.eventReceiverHttp": {here + ".TestEffectOfServiceDiscovery"},
	"backend.serviceDiscovery.eventReceiverWs":   {here + ".TestEffectOfServiceDiscovery"},
	"backend.serviceDiscovery.gateway":           {here + ".TestEffectOfServiceDiscovery"},
	"backend.serviceDiscovery.apiServer":         {here + ".TestEffectOfServiceDiscovery"},
	"backend.serviceDiscovery.metrics":           {here + ".TestEffectOfServiceDiscovery"},
	"backend.serviceDiscovery.storage":           {here + ".TestEffectOfServiceDiscovery"},

	"backend.authenticationServer.url":                       {here + ".TestAuthenticationServerDecides"},
	"backend.authenticationServer.headerToQueryParamMapping": {here + ".TestAuthenticationServerDecides", "internal/relay.TestAuthenticationServerAsks"},
	"backend.authenticationServer.headerToHeaderMapping":     {here + ".TestAuthenticationServerDecides", "internal/relay.TestAuthenticationServerAsks"},
	"backend.accessKeys":                                     {here + ".TestEffectOfAccessKeys"},
	"backend.allowAnonymous":                                 {"internal/config.TestOpenListenerNeedsConsent"},

	"backend.linkV2":             {said},
	"backend.clientBacklogBytes": {here + ".TestEffectOfClientBacklog", "internal/relay.TestDownwardBacklog"},
	"backend.subscription":       {said},
	"backend.producerTopic":      {scenario + ".TestEffectOfPulsarKeys"},
	"backend.consumerTopic":      {scenario + ".TestEffectOfPulsarKeys"},
	"backend.consumerWorkers":    {here + ".TestEffectOfConsumerWorkers", "internal/relay.TestWorkersAreApart"},

	"backend.pulsarConfig.url":                    {scenario + ".TestEffectOfPulsarKeys"},
	"backend.pulsarConfig.tenant":                 {scenario + ".TestEffectOfPulsarKeys"},
	"backend.pulsarConfig.namespace":              {scenario + ".TestEffectOfPulsarKeys"},
	"backend.pulsarConfig.adminUrl":               {scenario + ".TestEffectOfPulsarKeys"},
	"backend.pulsarConfig.clusters":               {scenario + ".TestEffectOfPulsarKeys"},
	"backend.pulsarConfig.redeliveryDelaySeconds": {said},
	"backend.pulsarConfig.maxDeliveryAttempts":    {said},
	"backend.pulsarConfig.token":                  {scenario + ".TestEffectOfPulsarLogin", "internal/queue/pulsar.TestContract"},
	"backend.pulsarConfig.tokenPath":              {scenario + ".TestEffectOfPulsarLogin", "internal/queue/pulsar.TestTokenFileIsReadAgain"},
	"backend.pulsarConfig.tlsCaCertPath":          {scenario + ".TestEffectOfPulsarLogin", "internal/queue/pulsar.TestContract"},
	"backend.pulsarConfig.tlsCertPath":            {scenario + ".TestEffectOfPulsarLogin", "internal/queue/pulsar.TestContract"},
	"backend.pulsarConfig.tlsKeyPath":             {scenario + ".TestEffectOfPulsarLogin", "internal/queue/pulsar.TestContract"},

	"backend.messageQueue.type":              {scenario + ".TestEffectOfNATSKeys", here + ".TestOpenErrors"},
	"backend.messageQueue.encoding":          {here + ".TestEffectOfEncoding"},
	"backend.messageQueue.embedded.path":     {here + ".TestEffectOfFolders"},
	"backend.messageQueue.embedded.maxBytes": {here + ".TestEffectOfQueueLimits", "internal/queue/nats.TestFullStream"},
	"backend.messageQueue.embedded.maxAge":   {here + ".TestEffectOfQueueLimits", "internal/queue/nats.TestOldAge"},

	"backend.messageQueue.kafkaConfig.bootstrapServers":   {scenario + ".TestEffectOfKafkaKeys"},
	"backend.messageQueue.kafkaConfig.producerTopic":      {scenario + ".TestEffectOfKafkaKeys"},
	"backend.messageQueue.kafkaConfig.consumerTopic":      {scenario + ".TestEffectOfKafkaKeys"},
	"backend.messageQueue.kafkaConfig.requireTopicsExist": {scenario + ".TestEffectOfKafkaKeys", "internal/queue/kafka.TestTheCheckCreatesNothing"},
	"backend.messageQueue.kafkaConfig.groupIdPrefix":      {said, "internal/queue/kafka.TestB024NoGroup"},
	"backend.messageQueue.kafkaConfig.compressionType":    {scenario + ".TestEffectOfKafkaKeys", "internal/queue/kafka.TestCompressions"},
	"backend.messageQueue.kafkaConfig.maxMessageBytes":    {scenario + ".TestEffectOfKafkaKeys", "internal/queue/kafka.TestTopicThatAllowsLess"},
	"backend.messageQueue.kafkaConfig.securityProtocol":   {scenario + ".TestEffectOfKafkaLogin"},
	"backend.messageQueue.kafkaConfig.saslMechanism":      {scenario + ".TestEffectOfKafkaLogin", "internal/queue/kafka.TestContract"},
	"backend.messageQueue.kafkaConfig.saslUsername":       {scenario + ".TestEffectOfKafkaLogin", "internal/queue/kafka.TestContract"},
	"backend.messageQueue.kafkaConfig.saslPassword":       {scenario + ".TestEffectOfKafkaLogin", "internal/queue/kafka.TestContract"},
	"backend.messageQueue.kafkaConfig.tlsCaCertPath":      {scenario + ".TestEffectOfKafkaLogin", "internal/queue/kafka.TestContract"},
	"backend.messageQueue.kafkaConfig.tlsCertPath":        {scenario + ".TestEffectOfKafkaLogin", "internal/queue/kafka.TestContract"},
	"backend.messageQueue.kafkaConfig.tlsKeyPath":         {scenario + ".TestEffectOfKafkaLogin", "internal/queue/kafka.TestContract"},

	"backend.messageQueue.natsConfig.servers":       {scenario + ".TestEffectOfNATSKeys"},
	"backend.messageQueue.natsConfig.prefix":        {scenario + ".TestEffectOfNATSKeys"},
	"backend.messageQueue.natsConfig.replicas":      {scenario + ".TestEffectOfNATSKeys", "internal/queue/nats.TestStreamsThatExist"},
	"backend.messageQueue.natsConfig.maxBytes":      {scenario + ".TestEffectOfNATSKeys", "internal/queue/nats.TestStreamsThatExist"},
	"backend.messageQueue.natsConfig.maxAge":        {scenario + ".TestEffectOfNATSKeys", "internal/queue/nats.TestOldAge"},
	"backend.messageQueue.natsConfig.user":          {scenario + ".TestEffectOfNATSLogin", "internal/queue/nats.TestContractOverTCP"},
	"backend.messageQueue.natsConfig.password":      {scenario + ".TestEffectOfNATSLogin", "internal/queue/nats.TestContractOverTCP"},
	"backend.messageQueue.natsConfig.token":         {scenario + ".TestEffectOfNATSLogin", "internal/queue/nats.TestContractOverTCP"},
	"backend.messageQueue.natsConfig.nkeyPath":      {scenario + ".TestEffectOfNATSLogin", "internal/queue/nats.TestContractOverTCP"},
	"backend.messageQueue.natsConfig.credsPath":     {scenario + ".TestEffectOfNATSLogin", "internal/queue/nats.TestContractOverTCP"},
	"backend.messageQueue.natsConfig.tlsCaCertPath": {scenario + ".TestEffectOfNATSLogin", "internal/queue/nats.TestContractOverTCP"},
	"backend.messageQueue.natsConfig.tlsCertPath":   {scenario + ".TestEffectOfNATSLogin", "internal/queue/nats.TestContractOverTCP"},
	"backend.messageQueue.natsConfig.tlsKeyPath":    {scenario + ".TestEffectOfNATSLogin", "internal/queue/nats.TestContractOverTCP"},

	"backend.prometheusConfig.enabled": {here + ".TestEffectOfMetricsPort"},
	"backend.prometheusConfig.port":    {here + ".TestEffectOfMetricsPort"},

	"backend.reconciliationTaskConfig.cronSchedule":                  {here + ".TestEffectOfSchedules", "internal/relay.TestPeriodicReconciliation"},
	"backend.reconciliationTaskConfig.taskIntervalSeconds":           {here + ".TestEffectOfSchedules", "internal/relay.TestPeriodicReconciliation"},
	"backend.reconciliationTaskConfig.intervalFromConnectionSeconds": {here + ".TestEffectOfSchedules", "internal/relay.TestPeriodicReconciliation"},
	"backend.reconciliationTaskConfig.sendBatch":                     {here + ".TestEffectOfSchedules", "internal/relay.TestPeriodicBatch"},
	"backend.keepAliveTaskConfig.taskIntervalSeconds":                {here + ".TestEffectOfSchedules", "internal/relay.TestKeepAlive"},
	"backend.reconciliationTaskConfig.reconcileAfterConnectSeconds":  {here + ".TestEffectOfSchedules", here + ".TestReconcileWhatHappenedWhileAway", "internal/relay.TestReconcileAfterConnect"},

	"backend.skipAlertsFrom":                          {here + ".TestEffectOfAlertGates", "internal/relay.TestSkipAlertsFrom"},
	"backend.featuresProvider.featureFlagName":        {here + ".TestEffectOfAlertGates", "internal/relay.TestFeatureGate"},
	"backend.featuresProvider.refreshIntervalSeconds": {here + ".TestEffectOfAlertGates", "internal/relay.TestFeaturesLive"},

	"backend.replay.enabled":              {here + ".TestEffectOfReplay", scenario + ".TestCommandsAreReplayed"},
	"backend.replay.ttlSeconds":           {here + ".TestEffectOfReplay", "internal/relay.TestB092ReplayHasItsOwnClock"},
	"backend.replay.maxMessages":          {here + ".TestEffectOfReplay", "internal/relay.TestBacklogIsTheModel"},
	"backend.replay.maxMessagesPerClient": {here + ".TestEffectOfReplay", "internal/relay.TestBacklogIsTheModel"},
	"backend.replay.maxBytes":             {here + ".TestEffectOfReplay", "internal/relay.TestBacklogIsTheModel"},
}

// TestEveryKeyHasAnEffect: no key of the reference is without a test, none that works
// has only the test of its notice, and the tests exist.
func TestEveryKeyHasAnEffect(t *testing.T) {
	named := make(map[string]bool)
	for _, field := range config.Fields() {
		if field.Section || !strings.HasPrefix(field.Path, "backend.") {
			continue
		}
		tests := effects[field.Path]
		named[field.Path] = true
		if len(tests) == 0 {
			t.Errorf("%s: name a test in which it changes what the program does", field.Path)
			continue
		}
		if works, notice := field.Effective == config.Works, slices.Contains(tests, said); works == notice {
			t.Errorf("%s: its status is %q, and its tests are %q", field.Path, field.Effective, tests)
		}
		for _, test := range tests {
			if err := exists(test); err != nil {
				t.Errorf("%s: %v", field.Path, err)
			}
		}
	}
	for key := range effects {
		require.True(t, named[key], "%s: not a key of the reference", key)
	}
}

// exists looks for a test in the tree.
func exists(test string) error {
	folder, function := path.Dir(test), ""
	folder, function = path.Join(folder, strings.SplitN(path.Base(test), ".", 2)[0]), strings.SplitN(path.Base(test), ".", 2)[1]
	files, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		return err
	}
	declared := regexp.MustCompile(`(?m)^func ` + function + `\(t \*testing\.T\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if declared.Match(text) {
			return nil
		}
	}
	return fmt.Errorf("there is no test %s in %s", function, folder)
}

// TestKeysWithoutEffectSaySo: whoever sets a key that this version does not heed is
// told, by a warning, or by a refusal where ignoring it would be unsafe.
func TestKeysWithoutEffectSaySo(t *testing.T) {
	for _, field := range config.Fields() {
		if field.Section || field.Effective == config.Works || !strings.HasPrefix(field.Path, "backend.") {
			continue
		}
		t.Run(field.Path, func(t *testing.T) {
			keys := strings.Split(field.Path, ".")
			value := map[string]string{"true or false": "true", "list of text": `["x"]`, "map of text": `{"x":"y"}`, "text": `"x"`}[field.Type]
			switch {
			case len(field.Enum) > 0:
				value = fmt.Sprintf("%q", field.Enum[len(field.Enum)-1])
			case value == "":
				value = "7"
			}
			text := value
			for _, key := range slices.Backward(keys[1:]) {
				text = fmt.Sprintf("{%q:%s}", key, text)
			}
			text = strings.Replace(text, `"pulsarConfig":{`, `"pulsarConfig":{"url":"pulsar://127.0.0.1:1",`, 1)
			text = strings.Replace(text, "{", `{"listen":"127.0.0.1:0",`, 1)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"backend":%s}`, text), 0o600))
			_, warnings, err := config.LoadServer(config.Env{ConfigDir: dir})
			if field.Effective == config.Unsupported {
				require.ErrorContains(t, err, "not supported by this version")
				return
			}
			require.NoError(t, err)
			for _, w := range warnings {
				if strings.HasPrefix(field.Path, w.Path) && strings.Contains(w.Message, map[config.Status]string{
					config.Ignored: "ignored", config.Planned: "has no effect yet",
				}[field.Effective]) {
					return
				}
			}
			require.Fail(t, "nothing is said", "%v", warnings)
		})
	}
}
