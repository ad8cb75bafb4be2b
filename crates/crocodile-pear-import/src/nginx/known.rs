//! Directives that need no import, those that cannot have one, and why.

/// Directives that change no answer here.
pub fn without_effect(name: &str) -> Option<&'static str> {
    const TUNING: &str = "it tunes nginx itself, and changes no answer";
    Some(match name {
        "worker_processes" | "worker_cpu_affinity" | "worker_priority" => {
            "the gateway has a thread for each core: see `threads`"
        }
        "user" => "the gateway runs as the user who starts it",
        "pid" | "daemon" | "master_process" | "lock_file" | "env" => "the service manager starts and stops the gateway",
        "events" => "the gateway has no such settings: it holds as many connections as the machine allows",
        "worker_rlimit_nofile" | "worker_connections" | "worker_shutdown_timeout" | "worker_rlimit_core" => {
            "the gateway raises its own limits: see `clients` and the service's limits"
        }
        "types" | "types_hash_max_size" | "types_hash_bucket_size" => "the gateway knows the content types of files",
        "sendfile"
        | "sendfile_max_chunk"
        | "tcp_nopush"
        | "tcp_nodelay"
        | "aio"
        | "aio_write"
        | "directio"
        | "output_buffers"
        | "postpone_output"
        | "read_ahead"
        | "open_file_cache"
        | "open_file_cache_valid"
        | "open_file_cache_min_uses"
        | "open_file_cache_errors"
        | "multi_accept"
        | "use"
        | "accept_mutex"
        | "server_names_hash_bucket_size"
        | "server_names_hash_max_size"
        | "variables_hash_max_size"
        | "variables_hash_bucket_size"
        | "map_hash_bucket_size"
        | "map_hash_max_size"
        | "proxy_headers_hash_max_size"
        | "proxy_headers_hash_bucket_size"
        | "connection_pool_size"
        | "request_pool_size"
        | "pcre_jit"
        | "reset_timedout_connection"
        | "lingering_close"
        | "lingering_time"
        | "lingering_timeout"
        | "client_header_buffer_size"
        | "client_body_buffer_size"
        | "client_body_temp_path"
        | "client_body_in_file_only"
        | "client_body_in_single_buffer"
        | "thread_pool"
        | "timer_resolution"
        | "max_ranges"
        | "keepalive_disable"
        | "log_not_found"
        | "log_subrequest"
        | "subrequest_output_buffer_size"
        | "msie_padding"
        | "msie_refresh"
        | "chunked_transfer_encoding"
        | "http2_max_concurrent_streams"
        | "http2_chunk_size"
        | "http2_body_preread_size"
        | "http2_recv_buffer_size"
        | "http2_max_field_size"
        | "http2_max_header_size"
        | "http2_max_requests"
        | "http2_idle_timeout"
        | "http2_recv_timeout"
        | "preread_buffer_size"
        | "allow_underscores" => TUNING,
        "proxy_buffers"
        | "proxy_buffer_size"
        | "proxy_busy_buffers_size"
        | "proxy_max_temp_file_size"
        | "proxy_temp_file_write_size"
        | "proxy_temp_path"
        | "proxy_socket_keepalive"
        | "proxy_request_buffering"
        | "proxy_buffering"
        | "grpc_buffer_size" => "bodies stream in both directions, and are never put on disk",
        "proxy_http_version" => "calls are HTTP/1.1, or HTTP/2 where the upstream offers it",
        "proxy_send_timeout" | "grpc_send_timeout" => "`timeout.first_byte` and `timeout.idle` bound a call",
        "keepalive" | "keepalive_requests" | "keepalive_time" | "zone" | "upstream_conf" => {
            "connections are kept and shared by themselves: see `connections` of the upstream"
        }
        "resolver_timeout" | "resolver" => {
            "the names of upstreams are looked up again when their time ends: see `resolver`"
        }
        "gzip_buffers" | "gzip_disable" | "gzip_http_version" | "gzip_vary" | "gzip_proxied" | "gzip_hash"
        | "gzip_window" | "gzip_static" | "gunzip" | "brotli_static" | "brotli_buffers" | "brotli_window"
        | "brotli_min_length" | "brotli_types" | "brotli_comp_level" | "zstd" | "zstd_types" | "zstd_comp_level" => {
            "`compress` looks at what the client accepts, and at the type and length of the answer"
        }
        "server_tokens" => "no answer has the version of the gateway",
        "server_name_in_redirect"
        | "port_in_redirect"
        | "absolute_redirect"
        | "merge_slashes"
        | "recursive_error_pages"
        | "if_modified_since"
        | "etag"
        | "ignore_invalid_headers" => "the gateway has one behaviour, which is the usual one",
        "ssl_prefer_server_ciphers"
        | "ssl_ciphers"
        | "ssl_ecdh_curve"
        | "ssl_dhparam"
        | "ssl_conf_command"
        | "ssl_session_cache"
        | "ssl_session_timeout"
        | "ssl_session_tickets"
        | "ssl_session_ticket_key"
        | "ssl_buffer_size"
        | "ssl_early_data"
        | "ssl_verify_depth" => "TLS 1.2 and 1.3 have sound ciphers and sessions without settings",
        "ssl_stapling"
        | "ssl_stapling_verify"
        | "ssl_trusted_certificate"
        | "ssl_stapling_file"
        | "ssl_stapling_responder" => "CAs no longer answer over OCSP",
        "limit_req_log_level" | "limit_conn_log_level" | "rewrite_log" | "uninitialized_variable_warn" => {
            "see `log` for what is logged"
        }
        "error_log" | "open_log_file_cache" => "the log goes to standard error: see `log`",
        "proxy_cache_path" => "the cache is in memory: see `store.memory`",
        "proxy_cache_lock" | "proxy_cache_lock_timeout" | "proxy_cache_lock_age" | "proxy_cache_revalidate" => {
            "the cache makes one call for all who wait, and validates what is stale"
        }
        "proxy_cache_min_uses" => "an answer is cached the first time",
        "proxy_cache_max_range_offset" | "proxy_cache_convert_head" => TUNING,
        "proxy_ssl_session_reuse"
        | "proxy_ssl_ciphers"
        | "proxy_ssl_protocols"
        | "proxy_ssl_verify_depth"
        | "grpc_ssl_session_reuse" => "TLS to upstreams has sound settings",
        "proxy_headers_hash"
        | "fastcgi_buffers"
        | "fastcgi_buffer_size"
        | "fastcgi_busy_buffers_size"
        | "fastcgi_connect_timeout"
        | "fastcgi_send_timeout"
        | "fastcgi_read_timeout"
        | "fastcgi_temp_path"
        | "uwsgi_temp_path"
        | "scgi_temp_path"
        | "fastcgi_cache_path"
        | "fastcgi_temp_file_write_size"
        | "uwsgi_read_timeout"
        | "uwsgi_send_timeout"
        | "uwsgi_connect_timeout"
        | "uwsgi_buffers" => "it is about a protocol that the gateway does not speak",
        "status_zone" => "see `admin` for the state of the gateway",
        _ => return None,
    })
}

/// Directives that are not imported: why, and what to use instead.
pub fn not_here(name: &str) -> Option<(&'static str, &'static str)> {
    if name.contains("_by_lua") || name.starts_with("lua_") || name.starts_with("resty_") {
        return Some((
            "the gateway runs no Lua",
            "expressions in jq, `authenticate: [ forward: … ]`, or a service behind it",
        ));
    }
    if name.starts_with("js_") || name.starts_with("perl") {
        return Some(("the gateway runs no scripts", "use expressions in jq, or a service behind it"));
    }
    if name.starts_with("fastcgi_") || name.starts_with("uwsgi_") || name.starts_with("scgi_") {
        let instead = "run the application behind its own HTTP server, and name that as an upstream";
        return Some(("the gateway speaks HTTP to upstreams, no FastCGI, uWSGI or SCGI", instead));
    }
    if name.starts_with("memcached_") || name.starts_with("redis") {
        return Some(("the gateway asks no memcached for answers", "see `cache` and `store`"));
    }
    if name.starts_with("sub_filter") || name.starts_with("xslt_") || name.starts_with("image_filter") {
        return Some(("the gateway does not change texts of HTML or pictures", "a `transform` changes JSON"));
    }
    if name.starts_with("dav_") || name == "create_full_put_path" {
        return Some(("the gateway stores no files", ""));
    }
    if name.starts_with("modsecurity") || name.starts_with("SecRule") || name.starts_with("naxsi") {
        return Some(("the gateway has no web application firewall", "see `validate`, `allow` and `reject`"));
    }
    if name.starts_with("geoip") {
        return Some(("the gateway knows no countries", "a proxy in front may send the country in a header field"));
    }
    Some(match name {
        "if" => (
            "an `if` is not imported",
            "see `allow` and `reject: { when: … }` for what is refused, `choose` for where a call goes, `headers` with \
             `$status`, and a listener with `redirect: https`",
        ),
        "map" | "geo" | "split_clients" => (
            "the variable is not imported",
            "write the condition where it is used: `choose` at an upstream, or an expression such as \
             `if $headers.host == \"a\" then 1 else 2 end`",
        ),
        "stream" => ("the gateway proxies HTTP, not raw TCP or UDP", "keep nginx, or a TCP proxy, for these ports"),
        "mail" => ("the gateway does not proxy mail", "keep nginx for it"),
        "error_page" => (
            "pages for errors are not imported",
            "`on_status` of a call with `respond` replaces an upstream's answer: see the row on \
             `proxy_intercept_errors` in the page for those who come from nginx",
        ),
        "load_module" => ("modules of nginx are not loaded", "see what it is for, and the list of layers and steps"),
        "stub_status" | "status" | "vhost_traffic_status_zone" | "vhost_traffic_status_display" => {
            ("the state of the gateway has a listener of its own", "write `admin: 127.0.0.1:9090`")
        }
        "autoindex" | "autoindex_exact_size" | "autoindex_localtime" | "autoindex_format" => {
            ("folders are not listed", "")
        }
        "satisfy" => ("an address and a credential cannot stand for each other", "write an `allow` for both"),
        "ssi" | "addition_types" | "add_before_body" | "add_after_body" => ("the gateway puts no pages together", ""),
        "limit_rate" | "limit_rate_after" | "proxy_limit_rate" => ("the rate of one answer is not limited", ""),
        "mirror" | "mirror_request_body" => ("copies of requests are not imported", "write `mirror` at the upstream"),
        "charset" | "override_charset" | "charset_types" | "source_charset" => {
            ("no charset is added to content types", "files and upstreams say it themselves; UTF-8 is the usual one")
        }
        "proxy_bind" | "proxy_store" | "proxy_store_access" | "proxy_force_ranges" => {
            ("the gateway has no such setting", "")
        }
        "proxy_cookie_domain" | "proxy_cookie_path" | "proxy_cookie_flags" => (
            "rules for cookies are not imported",
            "the path and domain of cookies that point to the upstream are rewritten by themselves: see `rewrite`",
        ),
        "proxy_intercept_errors" => ("errors of the upstream pass as they are", "see `on_status` of a call"),
        "proxy_cache_purge" => ("purges are not imported", "write `purge: { from: [127.0.0.1] }`, or use `admin`"),
        "secure_link" | "secure_link_md5" | "secure_link_secret" => ("signed links are not checked", ""),
        "valid_referers" | "userid" | "userid_name" | "random_index" | "slice" | "empty_gif" | "flv" | "mp4"
        | "mp4_buffer_size" | "browser" | "ancient_browser" | "modern_browser" => {
            ("the gateway has no such function", "")
        }
        "auth_jwt" | "auth_jwt_key_file" | "auth_jwt_key_request" | "auth_jwt_claim_set" => (
            "JWT of NGINX Plus is not imported",
            "write `authenticate: [ { jwt: { issuer, audience, keys, algorithms } } ]`",
        ),
        "health_check" => ("active checks are not imported", "write `health: /path` at the upstream"),
        "ssl_password_file" => ("keys with a password are not read", "store the key without one, readable by its user"),
        "ssl_reject_handshake" => ("the handshake is not refused", "a request for an unknown host gets 421 or 404"),
        "ssl_ocsp" | "ssl_ocsp_responder" | "ssl_ocsp_cache" => ("OCSP is not asked", "use `crl`"),
        "more_set_input_headers" | "more_clear_input_headers" => {
            ("the client's fields are not changed", "write `headers` of the upstream")
        }
        "underscores_in_headers" => {
            ("`forward: all` leaves out names with `_`", "name such fields: `forward: [x_role]`")
        }
        "default" | "server_name_regex" => ("it stands outside of its block", ""),
        _ => return None,
    })
}

/// Files that an nginx of its distribution has, and that need not be there for an import: why.
pub fn absent(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "mime.types" => Some("the gateway knows the content types of files"),
        "fastcgi_params" | "fastcgi.conf" | "fastcgi-php.conf" | "uwsgi_params" | "scgi_params" | "koi-utf"
        | "win-utf" => Some("it is about a protocol that the gateway does not speak"),
        "options-ssl-nginx.conf" => Some("TLS 1.2 and 1.3 have sound ciphers and sessions without settings"),
        _ => None,
    }
}

/// Directives that the import reads, where a location uses them.
pub fn is_used(name: &str) -> bool {
    const USED: &[&str] = &[
        "access_log",
        "add_header",
        "add_trailer",
        "alias",
        "allow",
        "auth_basic",
        "auth_basic_user_file",
        "auth_delay",
        "auth_request",
        "auth_request_set",
        "break",
        "brotli",
        "client_body_timeout",
        "client_header_timeout",
        "client_max_body_size",
        "default_type",
        "deny",
        "expires",
        "grpc_connect_timeout",
        "grpc_pass",
        "grpc_read_timeout",
        "grpc_set_header",
        "gzip",
        "gzip_comp_level",
        "gzip_min_length",
        "gzip_types",
        "http2",
        "index",
        "internal",
        "keepalive_timeout",
        "large_client_header_buffers",
        "limit_conn",
        "limit_conn_status",
        "limit_conn_zone",
        "limit_except",
        "limit_req",
        "limit_req_dry_run",
        "limit_req_status",
        "limit_req_zone",
        "listen",
        "log_format",
        "proxy_cache",
        "proxy_cache_background_update",
        "proxy_cache_bypass",
        "proxy_cache_key",
        "proxy_cache_methods",
        "proxy_cache_use_stale",
        "proxy_cache_valid",
        "proxy_connect_timeout",
        "proxy_hide_header",
        "proxy_ignore_client_abort",
        "proxy_ignore_headers",
        "proxy_method",
        "proxy_next_upstream",
        "proxy_next_upstream_timeout",
        "proxy_next_upstream_tries",
        "proxy_no_cache",
        "proxy_pass",
        "proxy_pass_header",
        "proxy_pass_request_body",
        "proxy_pass_request_headers",
        "proxy_read_timeout",
        "proxy_redirect",
        "proxy_set_body",
        "proxy_set_header",
        "proxy_ssl_certificate",
        "proxy_ssl_certificate_key",
        "proxy_ssl_name",
        "proxy_ssl_server_name",
        "proxy_ssl_trusted_certificate",
        "proxy_ssl_verify",
        "real_ip_header",
        "real_ip_recursive",
        "return",
        "rewrite",
        "root",
        "send_timeout",
        "server_name",
        "set",
        "set_real_ip_from",
        "ssl",
        "ssl_certificate",
        "ssl_certificate_key",
        "ssl_client_certificate",
        "ssl_crl",
        "ssl_protocols",
        "ssl_verify_client",
        "try_files",
        "upstream",
        "server",
        "location",
        "http",
        "more_set_headers",
        "more_clear_headers",
    ];
    USED.contains(&name)
}
