//! A service that decides who may pass, over HTTP.

use std::io::Write;

use crate::stage::shop::{Shop, answer};

use crate::authentication::scene::{gateway, post, send};

/// Says which fields of the client came.
fn echo() -> Shop {
    Shop::open(|asked, stream| {
        let said =
            format!("user={} groups={} body={}", asked.field("x-user"), asked.field("x-groups"), asked.body.len());
        stream.write_all(&answer(200, "content-type: text/plain\r\n", said))
    })
}

fn config(auth: &Shop, shop: &Shop, more: &str) -> String {
    format!(
        "
upstreams:
  auth: 'http://{}'
  shop: 'http://{}'
authenticate: [ {{ forward: {{ to: auth, path: /verify, keep: [x-user, x-groups]{more} }} }} ]
endpoints:
  /shop/{{*path}}: shop /{{*path}}?*
",
        auth.address, shop.address
    )
}

#[test]
fn it_lets_pass_says_who_it_is_and_turns_away() {
    let auth = Shop::open(|asked, stream| {
        assert_eq!(asked.target, "/verify");
        assert!(asked.body.is_empty());
        assert_eq!(asked.field("x-forwarded-uri"), "/shop/a?b=c");
        assert_eq!(asked.field("x-forwarded-method"), asked.field("x-original-method"));
        assert_eq!(asked.field("x-original-url"), "http://h/shop/a?b=c");
        let said = match asked.field("cookie") {
            "s=ada" => answer(202, "x-user: ada\r\nset-cookie: s=fresh\r\n", ""),
            _ => answer(302, "location: https://login.example/?rd=1\r\n", "go there"),
        };
        stream.write_all(&said)
    });
    let shop = echo();
    let gateway = gateway("deciding", &config(&auth, &shop, ""));
    let fields = ["cookie: s=ada".to_owned(), "x-user: root".to_owned(), "x-groups: admin".to_owned()];
    let passed = send(&gateway, "GET /shop/a?b=c", &fields);
    assert_eq!((passed.status, &*passed.body), (200, "user=ada groups= body=0"));
    assert!(passed.head.contains("set-cookie: s=fresh"), "{}", passed.head);
    let fields = ["x-user: root".to_owned()];
    let turned = send(&gateway, "GET /shop/a?b=c", &fields);
    assert_eq!((turned.status, &*turned.body), (302, "go there"));
    assert!(turned.head.contains("location: https://login.example/?rd=1"), "{}", turned.head);
    assert_eq!(shop.calls(), 1);
}

#[test]
fn the_body_of_the_client_goes_to_its_upstream_untouched() {
    let auth = Shop::open(|asked, stream| {
        assert!(asked.body.is_empty() && asked.field("content-type").is_empty());
        stream.write_all(&answer(200, "x-user: ada\r\n", ""))
    });
    let shop = echo();
    let gateway = gateway("deciding-body", &config(&auth, &shop, ""));
    let said = post(&gateway, "/shop/a", &"x".repeat(300_000));
    assert_eq!(said.body, "user=ada groups= body=300000");
}

#[test]
fn nobody_passes_while_it_does_not_answer() {
    let (auth, full) = crate::stage::absent::full().unwrap();
    let shop = echo();
    let config = format!(
        "
upstreams: {{ auth: 'http://{full}', shop: 'http://{}', gone: 'http://127.0.0.1:1' }}
endpoints:
  /hangs:
    authenticate: [ {{ forward: {{ to: auth, timeout: 300ms }} }} ]
    pipeline: [ {{ request: shop / }} ]
  /gone:
    authenticate: [ {{ forward: {{ to: gone }} }} ]
    pipeline: [ {{ request: shop / }} ]
",
        shop.address
    );
    let gateway = gateway("deciding-gone", &config);
    assert_eq!(send(&gateway, "GET /hangs", &[]).status, 504);
    assert_eq!(send(&gateway, "GET /gone", &[]).status, 502);
    assert_eq!(shop.calls(), 0);
    drop(auth);
}

#[test]
fn a_decision_is_used_again_for_the_same_values_only() {
    let auth = Shop::open(|asked, stream| match asked.field("cookie") {
        "" => stream.write_all(&answer(401, "", "")),
        who => stream.write_all(&answer(200, &format!("x-user: {who}\r\n"), "")),
    });
    let shop = echo();
    let cache = ", cache: { for: 60s, by: '[$headers.cookie]' }";
    let gateway = gateway("deciding-cache", &config(&auth, &shop, cache));
    for (cookie, calls) in [("a=1", 1), ("a=1", 1), ("a=2", 2), ("a=1", 2)] {
        let said = send(&gateway, "GET /shop/", &[format!("cookie: {cookie}")]);
        assert_eq!((said.body, auth.calls()), (format!("user={cookie} groups= body=0"), calls));
    }
    // A refusal is asked about again, and so is a request without a value.
    for calls in [3, 4] {
        assert_eq!((send(&gateway, "GET /shop/", &[]).status, auth.calls()), (401, calls));
    }
}

#[test]
fn a_choice_asks_the_service_that_is_for_the_request() {
    let deciding = |status: u16, user: &'static str| {
        Shop::open(move |_, stream| stream.write_all(&answer(status, &format!("x-user: {user}\r\n"), "")))
    };
    let (staff, public, copy) = (deciding(200, "staff"), deciding(403, "public"), deciding(500, "copy"));
    let shop = echo();
    let config = format!(
        "
upstreams:
  staff: 'http://{}'
  public: 'http://{}'
  copy: 'http://{}'
  auth: {{ choose: [ {{ when: '$headers[\"x-site\"] == \"intranet\"', to: staff }}, {{ to: public }} ], mirror: copy }}
  shop: 'http://{}'
authenticate: [ {{ forward: {{ to: auth, path: /verify, keep: [x-user], cache: {{ for: 60s, by: $headers.authorization }} }} }} ]
endpoints:
  /shop: shop /
",
        staff.address, public.address, copy.address, shop.address
    );
    let gateway = gateway("deciding-choice", &config);
    let ask = |site: &str| send(&gateway, "GET /shop", &[format!("x-site: {site}"), "authorization: a".to_owned()]);
    let passed = ask("intranet");
    assert_eq!((passed.status, &*passed.body), (200, "user=staff groups= body=0"));
    // The decision of the other service is not used.
    assert_eq!([ask("internet").status, ask("").status, ask("intranet").status], [403, 403, 200]);
    assert_eq!([staff.calls(), public.calls(), shop.calls()], [1, 2, 2]);
    crate::stage::until("the copies come", || copy.calls() == 3);
}

#[test]
fn open_policy_agent_decides_by_the_body_of_its_answer() {
    let auth = Shop::open(|asked, stream| {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        let allowed = body == r#"{"input":{"path":["a"],"user":"ada"}}"#;
        assert_eq!((&*asked.method, asked.field("content-type")), ("POST", "application/json"));
        stream.write_all(&answer(200, "content-type: application/json\r\n", format!("{{\"result\":{allowed}}}")))
    });
    let shop = echo();
    let config = format!(
        "
upstreams: {{ opa: 'http://{}', shop: 'http://{}' }}
endpoints:
  /shop/{{*path}}:
    authenticate:
      - forward:
          to: opa
          path: /v1/data/gateway/allow
          body: '{{input: {{path: ($path.path / \"/\"), user: $headers[\"x-user\"]}}}}'
          allow: .result == true
    pipeline: [ {{ request: 'shop /{{*path}}' }} ]
",
        auth.address, shop.address
    );
    let gateway = gateway("deciding-opa", &config);
    assert_eq!(send(&gateway, "GET /shop/a", &["x-user: ada".to_owned()]).status, 200);
    assert_eq!(send(&gateway, "GET /shop/b", &["x-user: ada".to_owned()]).status, 403);
    assert_eq!(send(&gateway, "GET /shop/a", &["x-user: eve".to_owned()]).status, 403);
    assert_eq!(shop.calls(), 1);
}

#[test]
fn an_answer_for_one_is_never_served_to_another_by_a_cache() {
    let auth = Shop::open(|asked, stream| {
        stream.write_all(&answer(200, &format!("x-user: {}\r\n", asked.field("authorization")), ""))
    });
    let shop = Shop::open(|asked, stream| {
        let fields = "content-type: text/plain\r\ncache-control: max-age=60\r\n";
        stream.write_all(&answer(200, fields, asked.field("x-user")))
    });
    let config = format!(
        "
upstreams: {{ auth: 'http://{}', shop: {{ url: 'http://{}', cache: 60s }} }}
authenticate: [ {{ forward: {{ to: auth, keep: [x-user] }} }} ]
endpoints:
  /one: shop /one
  /two: {{ cache: 60s, pipeline: [ {{ request: shop /two }} ] }}
",
        auth.address, shop.address
    );
    let gateway = gateway("deciding-apart", &config);
    for path in ["/one", "/two"] {
        for who in ["ada", "eve", "ada"] {
            let said = send(&gateway, &format!("GET {path}"), &[format!("authorization: {who}")]);
            assert_eq!((said.status, &*said.body), (200, who), "{path}");
        }
    }
}
