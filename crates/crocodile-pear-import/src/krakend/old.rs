//! The names that namespaces had before version 3. KrakenD 2 still reads them.

/// The namespace of today for one of before, or the name itself.
pub fn namespace(name: &str) -> &str {
    let alike = name.replacen("github_com", "github.com", 1);
    let found = ALIASES.iter().find(|(old, _)| *old == alike);
    found.map_or(name, |(_, new)| new)
}

const ALIASES: [(&str, &str); 40] = [
    ("github.com/devopsfaith/krakend/transport/http/server/handler", "plugin/http-server"),
    ("github.com/devopsfaith/krakend/transport/http/client/executor", "plugin/http-client"),
    ("github.com/devopsfaith/krakend/proxy/plugin", "plugin/req-resp-modifier"),
    ("github.com/devopsfaith/krakend/proxy", "proxy"),
    ("github.com/luraproject/lura/router/gin", "router"),
    ("github.com/devopsfaith/krakend/router/gin", "router"),
    ("github.com/devopsfaith/krakend-ratelimit/juju/router", "qos/ratelimit/router"),
    ("github.com/devopsfaith/krakend-ratelimit/juju/proxy", "qos/ratelimit/proxy"),
    ("github.com/devopsfaith/krakend-ratelimit/rate/router", "qos/ratelimit/router"),
    ("github.com/devopsfaith/krakend-ratelimit/rate/proxy", "qos/ratelimit/proxy"),
    ("github.com/devopsfaith/krakend-httpcache", "qos/http-cache"),
    ("github.com/devopsfaith/krakend-circuitbreaker/gobreaker", "qos/circuit-breaker"),
    ("github.com/devopsfaith/krakend-oauth2-clientcredentials", "auth/client-credentials"),
    ("github.com/devopsfaith/krakend-jose/validator", "auth/validator"),
    ("github.com/devopsfaith/krakend-jose/signer", "auth/signer"),
    ("github.com/devopsfaith/bloomfilter", "auth/revoker"),
    ("github.com/devopsfaith/krakend-botdetector", "security/bot-detector"),
    ("github.com/devopsfaith/krakend-httpsecure", "security/http"),
    ("github.com/devopsfaith/krakend-cors", "security/cors"),
    ("github.com/devopsfaith/krakend-cel", "validation/cel"),
    ("github.com/devopsfaith/krakend-jsonschema", "validation/json-schema"),
    ("github.com/devopsfaith/krakend-amqp/agent", "async/amqp"),
    ("github.com/devopsfaith/krakend-amqp/consume", "backend/amqp/consumer"),
    ("github.com/devopsfaith/krakend-amqp/produce", "backend/amqp/producer"),
    ("github.com/devopsfaith/krakend-lambda", "backend/lambda"),
    ("github.com/devopsfaith/krakend-pubsub/publisher", "backend/pubsub/publisher"),
    ("github.com/devopsfaith/krakend-pubsub/subscriber", "backend/pubsub/subscriber"),
    ("github.com/devopsfaith/krakend/transport/http/client/graphql", "backend/graphql"),
    ("github.com/devopsfaith/krakend/http", "backend/http"),
    ("github.com/devopsfaith/krakend-gelf", "telemetry/gelf"),
    ("github.com/devopsfaith/krakend-gologging", "telemetry/logging"),
    ("github.com/devopsfaith/krakend-logstash", "telemetry/logstash"),
    ("github.com/devopsfaith/krakend-metrics", "telemetry/metrics"),
    ("github.com/letgoapp/krakend-influx", "telemetry/influx"),
    ("github.com/devopsfaith/krakend-influx", "telemetry/influx"),
    ("github.com/devopsfaith/krakend-opencensus", "telemetry/opencensus"),
    ("github.com/devopsfaith/krakend-lua/router", "modifier/lua-endpoint"),
    ("github.com/devopsfaith/krakend-lua/proxy", "modifier/lua-proxy"),
    ("github.com/devopsfaith/krakend-lua/proxy/backend", "modifier/lua-backend"),
    ("github.com/devopsfaith/krakend-martian", "modifier/martian"),
];
