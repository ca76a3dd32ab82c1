// SPDX-License-Identifier: Apache-2.0

package config

// Config holds every key of the configuration files of client and server. What each key
// means, and whether it exists in the field, is in the tables clientFields and serverFields.
type Config struct {
	InCluster InCluster `json:"inCluster"`
	// HTTPEndpoint is nil when the file has no such section: then there is no endpoint.
	HTTPEndpoint *HTTPEndpoint `json:"httpEndpoint,omitempty"`
	Backend      Backend       `json:"backend"`
	Ingester     Ingester      `json:"ingester"`
	Store        Store         `json:"store"`
	API          API           `json:"api"`
	Resources    Presence      `json:"resources,omitempty"`

	// Process is what comes from the environment only; no file has it.
	Process Process `json:"-"`
}

// Process is what only the environment of the process tells.
type Process struct {
	// File is the config.json that was read, "" when there was none.
	File string
	// Release is RELEASE, the version of the image.
	Release string
	// HelmRelease is HELM_RELEASE, the release of the chart that installed the client.
	HelmRelease string
	// APIURL is API_URL, where a client asks for its server; empty when a services
	// file has told it.
	APIURL string
	// MaxObjectSize is MAX_OBJECT_SIZE in bytes; 0 means that it is unset.
	MaxObjectSize int64
}

// InCluster configures the client.
type InCluster struct {
	ServerURL                    string        `json:"serverUrl"`
	Namespace                    string        `json:"namespace"`
	ClusterName                  string        `json:"clusterName"`
	Account                      string        `json:"account"`
	AccessKey                    Secret        `json:"accessKey"`
	IncludeNamespaces            []string      `json:"includeNamespaces"`
	ExcludeNamespaces            []string      `json:"excludeNamespaces"`
	IncludeChildWorkloads        bool          `json:"includeChildWorkloads"`
	NamespaceFilterConfigMapName string        `json:"namespaceFilterConfigMapName"`
	Deduplication                Deduplication `json:"deduplication"`
	ListPeriod                   Presence      `json:"listPeriod,omitempty"`
	Resources                    []Resource    `json:"resources"`
	CoalesceWindow               Duration      `json:"coalesceWindow"`
	BaselineCacheBytes           int64         `json:"baselineCacheBytes"`
	WindowBytes                  int64         `json:"windowBytes"`
	MaxObjectBytes               int64         `json:"maxObjectBytes"`
	QPS                          float64       `json:"qps"`
	Burst                        int           `json:"burst"`
	HealthPort                   int           `json:"healthPort"`
	CAFile                       string        `json:"caFile"`
	SpoolDir                     string        `json:"spoolDir"`
	SpoolMaxBytes                int64         `json:"spoolMaxBytes"`
	Policy                       []PolicyRule  `json:"policy"`
}

// Resource is one kind that a client synchronizes or that its endpoint takes.
type Resource struct {
	Group         string   `json:"group"`
	Version       string   `json:"version"`
	Resource      string   `json:"resource"`
	Strategy      string   `json:"strategy"`
	LabelSelector string   `json:"labelSelector,omitempty"`
	FieldSelector string   `json:"fieldSelector,omitempty"`
	Namespaces    []string `json:"namespaces,omitempty"`
	Mode          string   `json:"mode,omitempty"`
}

// PolicyRule hides parts of objects beyond the built-in rules; see package policy.
type PolicyRule struct {
	Match    PolicyMatch `json:"match"`
	Action   string      `json:"action"`
	Paths    []string    `json:"paths"`
	Salt     Secret      `json:"salt,omitempty"`
	SaltFile string      `json:"saltFile,omitempty"`
}

// PolicyMatch says which objects a rule is about.
type PolicyMatch struct {
	Group      string   `json:"group"`
	Resource   string   `json:"resource"`
	Namespaces []string `json:"namespaces,omitempty"`
}

// Deduplication bounds what a client remembers of the mutations that it applied.
type Deduplication struct {
	Disabled    bool    `json:"disabled"`
	TTLSeconds  Seconds `json:"ttlSeconds"`
	MaxMessages int     `json:"maxMessages"`
}

// HTTPEndpoint configures the endpoint to which other components of a cluster post.
type HTTPEndpoint struct {
	ServerPort int        `json:"serverPort"`
	Resources  []Resource `json:"resources"`
}

// Backend configures the server.
type Backend struct {
	Port                 int                  `json:"port"`
	Listen               string               `json:"listen"`
	HealthPort           int                  `json:"healthPort"`
	DataDir              string               `json:"dataDir"`
	TLS                  KeyPair              `json:"tls"`
	PublicURL            string               `json:"publicUrl"`
	ServiceDiscovery     ServiceDiscovery     `json:"serviceDiscovery"`
	AuthenticationServer AuthenticationServer `json:"authenticationServer"`
	AccessKeys           string               `json:"accessKeys"`
	AllowAnonymous       bool                 `json:"allowAnonymous"`
	LinkV2               string               `json:"linkV2"`
	ClientBacklogBytes   int64                `json:"clientBacklogBytes"`
	Subscription         string               `json:"subscription"`
	ProducerTopic        string               `json:"producerTopic"`
	ConsumerTopic        string               `json:"consumerTopic"`
	ConsumerWorkers      int                  `json:"consumerWorkers"`
	PulsarConfig         *PulsarConfig        `json:"pulsarConfig,omitempty"`
	MessageQueue         MessageQueue         `json:"messageQueue"`
	PrometheusConfig     PrometheusConfig     `json:"prometheusConfig"`
	ReconciliationTask   ReconciliationTask   `json:"reconciliationTaskConfig"`
	KeepAliveTask        KeepAliveTask        `json:"keepAliveTaskConfig"`
	SkipAlertsFrom       []string             `json:"skipAlertsFrom"`
	FeaturesProvider     FeaturesProvider     `json:"featuresProvider"`
	Replay               Replay               `json:"replay"`
}

// KeyPair names the files of a TLS certificate and its key.
type KeyPair struct {
	CertPath string `json:"certPath"`
	KeyPath  string `json:"keyPath"`
}

// ServiceDiscovery holds the addresses that the server names to clients beside its own.
type ServiceDiscovery struct {
	EventReceiverHTTP string `json:"eventReceiverHttp"`
	EventReceiverWS   string `json:"eventReceiverWs"`
	Gateway           string `json:"gateway"`
	APIServer         string `json:"apiServer"`
	Metrics           string `json:"metrics"`
	Storage           string `json:"storage"`
}

// AuthenticationServer says whom the server asks whether a client may come in.
type AuthenticationServer struct {
	URL                       string            `json:"url"`
	HeaderToQueryParamMapping map[string]string `json:"headerToQueryParamMapping"`
	HeaderToHeaderMapping     map[string]string `json:"headerToHeaderMapping"`
}

// PulsarConfig configures Apache Pulsar in the form that exists in the field.
type PulsarConfig struct {
	URL                    string   `json:"url"`
	Tenant                 string   `json:"tenant"`
	Namespace              string   `json:"namespace"`
	AdminURL               string   `json:"adminUrl"`
	Clusters               []string `json:"clusters"`
	RedeliveryDelaySeconds Seconds  `json:"redeliveryDelaySeconds"`
	MaxDeliveryAttempts    int      `json:"maxDeliveryAttempts"`
	Token                  Secret   `json:"token"`
	TokenPath              string   `json:"tokenPath"`
	TLSCACertPath          string   `json:"tlsCaCertPath"`
	TLSCertPath            string   `json:"tlsCertPath"`
	TLSKeyPath             string   `json:"tlsKeyPath"`
}

// MessageQueue chooses and configures the queue between server and ingester.
type MessageQueue struct {
	Type        string        `json:"type"`
	Encoding    string        `json:"encoding"`
	Embedded    EmbeddedQueue `json:"embedded"`
	KafkaConfig *KafkaConfig  `json:"kafkaConfig,omitempty"`
	NATSConfig  *NATSConfig   `json:"natsConfig,omitempty"`
}

// EmbeddedQueue configures the queue inside the server's process.
type EmbeddedQueue struct {
	Path     string   `json:"path"`
	MaxBytes int64    `json:"maxBytes"`
	MaxAge   Duration `json:"maxAge"`
}

// KafkaConfig configures Apache Kafka.
type KafkaConfig struct {
	BootstrapServers   []string `json:"bootstrapServers"`
	ProducerTopic      string   `json:"producerTopic"`
	ConsumerTopic      string   `json:"consumerTopic"`
	RequireTopicsExist bool     `json:"requireTopicsExist"`
	GroupIDPrefix      Presence `json:"groupIdPrefix,omitempty"`
	CompressionType    string   `json:"compressionType"`
	MaxMessageBytes    int64    `json:"maxMessageBytes"`
	SecurityProtocol   string   `json:"securityProtocol"`
	SASLMechanism      string   `json:"saslMechanism"`
	SASLUsername       string   `json:"saslUsername"`
	SASLPassword       Secret   `json:"saslPassword"`
	TLSCACertPath      string   `json:"tlsCaCertPath"`
	TLSCertPath        string   `json:"tlsCertPath"`
	TLSKeyPath         string   `json:"tlsKeyPath"`
}

// NATSConfig configures NATS JetStream.
type NATSConfig struct {
	Servers       []string `json:"servers"`
	Prefix        string   `json:"prefix"`
	Replicas      int      `json:"replicas"`
	MaxBytes      int64    `json:"maxBytes"`
	MaxAge        Duration `json:"maxAge"`
	User          string   `json:"user"`
	Password      Secret   `json:"password"`
	Token         Secret   `json:"token"`
	NKeyPath      string   `json:"nkeyPath"`
	CredsPath     string   `json:"credsPath"`
	TLSCACertPath string   `json:"tlsCaCertPath"`
	TLSCertPath   string   `json:"tlsCertPath"`
	TLSKeyPath    string   `json:"tlsKeyPath"`
}

// PrometheusConfig opens /metrics on a port of its own.
type PrometheusConfig struct {
	Enabled bool `json:"enabled"`
	Port    int  `json:"port"`
}

// ReconciliationTask says when the server asks clients to reconcile.
type ReconciliationTask struct {
	CronSchedule                  string  `json:"cronSchedule"`
	TaskIntervalSeconds           Seconds `json:"taskIntervalSeconds"`
	IntervalFromConnectionSeconds Seconds `json:"intervalFromConnectionSeconds"`
	SendBatch                     bool    `json:"sendBatch"`
	ReconcileAfterConnectSeconds  Seconds `json:"reconcileAfterConnectSeconds"`
}

// KeepAliveTask says how often the server publishes who is connected.
type KeepAliveTask struct {
	TaskIntervalSeconds Seconds `json:"taskIntervalSeconds"`
}

// FeaturesProvider gates runtime alerts by a feature of the account.
type FeaturesProvider struct {
	FeatureFlagName        string  `json:"featureFlagName"`
	RefreshIntervalSeconds Seconds `json:"refreshIntervalSeconds"`
}

// Replay bounds what the server keeps for clients that are not connected.
type Replay struct {
	Enabled              bool    `json:"enabled"`
	TTLSeconds           Seconds `json:"ttlSeconds"`
	MaxMessages          int     `json:"maxMessages"`
	MaxMessagesPerClient int     `json:"maxMessagesPerClient"`
	MaxBytes             int64   `json:"maxBytes"`
}

// Ingester configures the part that writes the queue's records into the store.
type Ingester struct {
	// Enabled is nil when the file does not say; see [Config.IngesterEnabled].
	Enabled             *bool    `json:"enabled"`
	Group               string   `json:"group"`
	Subscription        string   `json:"subscription"`
	Workers             int      `json:"workers"`
	BatchMax            int      `json:"batchMax"`
	V1Kinds             []string `json:"v1Kinds"`
	EventKinds          []string `json:"eventKinds"`
	TombstoneTTL        Duration `json:"tombstoneTTL"`
	EventTTL            Duration `json:"eventTTL"`
	MaxDeliveryAttempts int      `json:"maxDeliveryAttempts"`
}

// Store configures the database.
type Store struct {
	SQLite    SQLite    `json:"sqlite"`
	Postgres  Postgres  `json:"postgres"`
	Retention Retention `json:"retention"`
}

// SQLite configures the embedded database.
type SQLite struct {
	Path string `json:"path"`
}

// Postgres configures PostgreSQL.
type Postgres struct {
	URL Secret `json:"url"`
}

// Retention says what the store forgets by age.
type Retention struct {
	ClustersNotSeenFor Duration `json:"clustersNotSeenFor"`
}

// API configures the reading side: HTTP API and web page.
type API struct {
	Listen    string  `json:"listen"`
	TLSListen string  `json:"tlsListen"`
	TLS       KeyPair `json:"tls"`
}
