//! Configurations of nginx.

/// The import of a file below `upstreams`, and the reports.
fn written(name: &str, text: &str) -> (String, Vec<String>) {
    let (document, told) = super::written(name, text, crocodile_pear_import::nginx::import);
    (document.split_once("\nupstreams:\n").map(|(_, text)| text.to_owned()).unwrap_or(document), told)
}

/// A file with this in its only server.
fn server(inner: &str) -> String {
    format!("server {{ listen 80; access_log off; client_max_body_size 0; proxy_set_header Host $host; {inner} }}")
}

const UP: &str = "  up: { url: http://up, forward: all, host: keep, forwarded: off, timeout: { first_byte: 1m, idle: 1m, call: never } }\n";

#[test]
fn locations_are_written_as_a_person_would() {
    for (number, (inner, wanted)) in [
        ("location / { proxy_pass http://up; }", "  /{*path}: up /{*path}?*\n"),
        ("location /api/ { proxy_pass http://up/v2/; }", "  /api/{*path}: up /v2/{*path}?*\n"),
        ("location = /one { proxy_pass http://up/two; }", "  /one: up /two?*\n"),
        (
            "location ~ ^/users/([0-9]+)$ { proxy_pass http://up/u/$1; }",
            "  /users/{id}:\n    pipeline:\n      - reject: { when: '$path.id | test(\"^[0-9]+$\") | not', status: 404 }\n      - request: up /u/{id}\n",
        ),
        ("location /a/ { rewrite ^/a/(.*)$ /$1 break; proxy_pass http://up; }", "  /a/{*path}: up /{*path}?*\n"),
        ("set $up http://up; location / { proxy_pass $up; }", "  /{*path}: up /{*path}?*\n"),
        (
            "location /api/ { location /api/in/ { proxy_pass http://up/i/; } proxy_pass http://up; }",
            "  /api/{*path}: up /api/{*path}?*\n  /api/in/{*path}: up /i/{*path}?*\n",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (text, told) = written(&format!("locations-{number}.conf"), &server(inner));
        let short = text.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(short.starts_with("up:"), "{text}");
        let endpoints = text.split_once("endpoints:\n").map(|(_, endpoints)| endpoints.to_owned());
        assert_eq!((endpoints.as_deref(), told), (Some(wanted), Vec::new()), "{inner}");
    }
    let (text, _) = written("up.conf", &server("location / { proxy_pass http://up; }"));
    let lines = |text: &str| text.split_whitespace().collect::<String>();
    assert!(lines(&text).contains(&lines("forward: all host: keep forwarded: off")) || text.starts_with(UP), "{text}");
}

#[test]
fn files_that_nginx_does_not_give_out_are_not_given_out() {
    let hidden = [
        r"root /srv; index index.php; location ~ \.php$ { fastcgi_pass unix:/run/php.sock; }",
        r"root /srv; location / { try_files $uri $uri/ /index.php?$args; } location ~ [^/]\.php(/|$) { proxy_pass http://up; }",
        r"root /srv; location /a/ { expires 1d; } location ~* \.(sql|bak)$ { deny all; }",
        r"location /media/ { alias /srv; } location ~ \.inc$ { return 404; }",
    ];
    for (number, inner) in hidden.into_iter().enumerate() {
        let (text, told) = written(&format!("hidden-{number}.conf"), &server(inner));
        assert!(!text.contains("files:") && !text.contains("/srv"), "{text}");
        assert!(told.iter().any(|key| key.contains("location[")), "{told:?}");
        assert!(told.iter().any(|key| key.ends_with("root") || key.ends_with("alias")), "{told:?}");
    }
    // This location gives out files, too.
    let inner = r"root /srv; location / { try_files $uri =404; } location ~* \.(png|css)$ { expires 1d; }";
    assert!(written("given.conf", &server(inner)).0.contains("files: /srv"));
}

#[test]
fn an_inner_block_replaces_fields_as_a_whole() {
    let (text, _) = written(
        "inherit.conf",
        &server(
            "add_header X-Outer 1 always; location /a/ { proxy_pass http://up; add_header X-Inner 1 always; } \
             location /b/ { proxy_pass http://up; proxy_set_header X-B 1; }",
        ),
    );
    assert!(text.contains("  /a/{*path}:\n    headers: { set: { x-inner: '1' } }"), "{text}");
    assert!(text.contains("  /b/{*path}:\n    headers: { set: { x-outer: '1' } }"), "{text}");
    assert!(text.contains("headers: { x-b: '1' }"), "{text}");
}
