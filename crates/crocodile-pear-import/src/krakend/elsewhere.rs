//! Namespaces of `extra_config` that are not imported: why, and what to use instead.

use super::keys::Item;

/// Reports a namespace that has no importer.
pub fn report(name: &str, item: &Item<'_>) {
    let known =
        KNOWN.iter().find(|(prefix, _, _)| name == *prefix || (prefix.ends_with('/') && name.starts_with(prefix)));
    match known {
        Some((_, why, instead)) => item.report(format!("`{name}` is not imported: {why}"), *instead),
        None => item.report(
            format!("`{name}` is not imported: it is none of KrakenD's own namespaces, or not for this place"),
            "see what the component does, and write it anew",
        ),
    }
}

const KNOWN: [(&str, &str, &str); 41] = [
    ("modifier/lua-endpoint", "the gateway runs no Lua", "use `reject`, `allow`, `headers` or `transform` with jq"),
    ("modifier/lua-proxy", "the gateway runs no Lua", "use `headers` of the call and `transform` with jq"),
    ("modifier/lua-backend", "the gateway runs no Lua", "use `headers` of the call and `transform` with jq"),
    (
        "plugin/",
        "the gateway loads no Go plugins",
        "use a step, a layer, or `authenticate: forward` to a service of yours",
    ),
    (
        "modifier/response-body-generator",
        "the gateway has no Go templates",
        "write a `transform` or `respond` step with jq",
    ),
    ("modifier/request-body-generator", "the gateway has no Go templates", "write `body` of the call as jq"),
    ("modifier/response-body", "its rules have no counterpart", "write a `transform` step with jq"),
    ("modifier/body-generator", "the gateway has no Go templates", "write `body` of the call as jq"),
    ("modifier/jmespath", "expressions are jq here", "write the query as a `transform` step"),
    ("modifier/response-headers", "its rules have no counterpart", "use `headers` of the endpoint"),
    ("modifier/request-headers", "its rules have no counterpart", "use `headers` of the upstream or the call"),
    (
        "backend/pubsub/",
        "the gateway speaks HTTP and PostgreSQL to upstreams",
        "put an HTTP service in front of the broker",
    ),
    (
        "backend/amqp/",
        "the gateway speaks HTTP and PostgreSQL to upstreams",
        "put an HTTP service in front of the broker",
    ),
    (
        "backend/lambda",
        "the gateway does not sign calls to AWS",
        "call the function by its function URL or by an API Gateway",
    ),
    ("backend/graphql", "the gateway writes no GraphQL", "write `body` of the call: `{query: \"…\", variables: {…}}`"),
    ("backend/grpc", "the gateway does not convert gRPC", "proxy gRPC over HTTP/2, or use `grpc_web`"),
    (
        "backend/soap",
        "its templates have no counterpart",
        "write `body` of the call as XML, and `transform` the answer",
    ),
    ("backend/http/gcloud", "the gateway makes no tokens of Google Cloud", "use `credentials`, or a sidecar"),
    ("backend/static-filesystem", "its settings have no counterpart", "use `files` of an endpoint"),
    ("backend/conditional", "its conditions have no counterpart", "use `when` of the call"),
    ("async/", "the gateway consumes no queues", "run a consumer that calls the endpoints"),
    ("auth/signer", "the gateway signs no tokens", "let the issuer of the tokens sign them"),
    (
        "auth/revoker",
        "the gateway keeps no list of revoked tokens",
        "use short lifetimes, or `authenticate: introspection`",
    ),
    ("auth/api-keys", "its keys are in the clear there", "use `authenticate: api_key` with the SHA-256 of each key"),
    ("auth/basic", "its file is not read", "use `authenticate: basic` with the same htpasswd file (bcrypt)"),
    ("auth/ntlm", "the gateway does not speak NTLM", "use `credentials`, or a sidecar"),
    ("auth/gcp", "the gateway makes no tokens of Google Cloud", "use `credentials`, or a sidecar"),
    ("auth/aws-sigv4", "the gateway does not sign calls to AWS", "use a sidecar that does"),
    (
        "security/bot-detector",
        "the gateway has no list of bots",
        "use `reject` with `$headers[\"user-agent\"]`, and `rate_limit`",
    ),
    ("security/policies", "its language has no counterpart", "use `allow` with jq"),
    ("qos/ratelimit/tiered", "its tiers have no counterpart", "use several `rate_limit` with `by`"),
    ("qos/ratelimit/service/redis", "its keys have no counterpart", "use `rate_limit` with `store.redis`"),
    ("telemetry/influx", "the gateway writes no InfluxDB protocol", "let Telegraf scrape `/metrics` of `admin`"),
    ("telemetry/gelf", "the log goes to the standard error stream", "let a log shipper forward it"),
    (
        "telemetry/logstash",
        "the log goes to the standard error stream",
        "use `log: { format: json }` and a log shipper",
    ),
    (
        "telemetry/ganalytics",
        "the gateway sends nothing to Google Analytics",
        "use `analytics` or `/metrics` of `admin`",
    ),
    ("telemetry/newrelic", "the gateway has no agent of New Relic", "use `traces` with an OTLP collector"),
    ("telemetry/moesif", "the gateway has no agent of Moesif", "use `analytics` or the access log"),
    ("server/", "it has no counterpart", "see the reference for `files`, `listen` and `clients`"),
    ("websocket", "its multiplexing has no counterpart", "use `upgrade: websocket` for direct connections"),
    ("documentation/openapi", "the gateway does not make a document of it", ""),
];
