//! The signs of a personal answer are not overruled: cookies, credentials, `private`, and a client who is nobody.

use std::io::Write;

use crate::cache::keys::write_keys;
use crate::stage::front::Scene;
use crate::stage::shop::{Shop, answer};

/// Where a cache may stand.
const PLACES: [&str; 3] = ["upstream", "endpoint", "composed"];

/// A gateway whose one endpoint has this cache, at this place.
fn scene(place: &str, cache: &str, shop: &Shop) -> Scene {
    forwarding("forward: [authorization, cookie]", place, cache, shop)
}

/// The same, with these settings of the upstream.
fn forwarding(forward: &str, place: &str, cache: &str, shop: &Shop) -> Scene {
    write_keys();
    let (upstream, endpoint) = if place == "upstream" { (cache, "off") } else { ("off", cache) };
    let more = if place == "composed" { ", transform: ." } else { "" };
    Scene::new(
        &format!(
            "authenticate: [ {{ api_key: {{ header: x-api-key, keys: keys.yaml }} }} ]\n\
             upstreams: {{ shop: {{ url: 'http://${{SHOP}}', {forward}, cache: {upstream} }} }}\n\
             endpoints: {{ 'GET /{{*path}}': {{ cache: {endpoint}, pipeline: [ request: 'shop /{{path}}?*'{more} ] }} }}\n"
        ),
        shop,
    )
}

/// A shop that numbers its answers, in JSON: each has these fields.
fn numbered(fields: &'static str) -> Shop {
    let calls = std::sync::atomic::AtomicUsize::new(1);
    Shop::open(move |_, stream| {
        let number = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        stream.write_all(&answer(200, &format!("content-type: application/json\r\n{fields}"), number.to_string()))
    })
}

/// The answers to requests with these fields, one after the other.
fn bodies(scene: &mut Scene, fields: &[&str]) -> String {
    fields.iter().map(|fields| scene.get("/item", &format!("host: test\r\n{fields}")).text().to_owned()).collect()
}

const ANNA: &str = "x-api-key: anna\r\n";
const BERT: &str = "x-api-key: bert\r\n";
const TEAM: &str = "x-api-key: team\r\n";
const NOBODY: &str = "x-api-key: none\r\n";

#[test]
fn an_answer_that_sets_a_cookie_is_for_one_client_whatever_it_declares() {
    for place in PLACES {
        for fields in [
            "set-cookie: a=b\r\n",
            "set-cookie: a=b\r\ncache-control: max-age=60\r\n",
            "set-cookie: a=b\r\ncache-control: s-maxage=60\r\n",
            "set-cookie: a=b\r\ncache-control: public, max-age=60\r\n",
            "set-cookie: a=b\r\nexpires: Fri, 01 Jan 2100 00:00:00 GMT\r\n",
            "set-cookie: a=b\r\ncdn-cache-control: max-age=60\r\n",
            "cache-control: max-age=60\r\nSet-Cookie: a=b; Max-Age=60\r\nset-cookie: c=d\r\n",
        ] {
            for cache in ["{ for: 1h }", "{ force: 1h }"] {
                let shop = numbered(fields);
                let mut scene = scene(place, cache, &shop);
                // Without credentials to the shop: only the cookie says for whom it is.
                assert_eq!(bodies(&mut scene, &[ANNA, BERT, ANNA]), "123", "{place} {cache} {fields}");
            }
        }
    }
}

#[test]
fn a_cookie_is_kept_for_all_where_that_is_written() {
    for place in PLACES {
        let shop = numbered("set-cookie: a=b\r\ncache-control: public, max-age=60\r\n");
        let mut kept = scene(place, "{ for: 1h, store_cookies: on }", &shop);
        assert_eq!(bodies(&mut kept, &[ANNA, BERT, ANNA]), "111", "{place}");
        assert_eq!(kept.get("/item", &format!("host: test\r\n{BERT}")).field("set-cookie"), "a=b", "{place}");
        let shop = numbered("set-cookie: a=b\r\ncache-control: max-age=60, private\r\n");
        assert_eq!(bodies(&mut scene(place, "{ store_cookies: on }", &shop), &[ANNA, BERT]), "12", "{place}");
    }
}

#[test]
fn a_cookie_that_the_answer_names_apart_is_for_the_first_client_only() {
    for place in PLACES {
        let shop = numbered("set-cookie: a=b\r\ncache-control: public, max-age=60, private=\"set-cookie\"\r\n");
        let mut kept = scene(place, "on", &shop);
        let answers = [ANNA, BERT].map(|fields| kept.get("/item", &format!("host: test\r\n{fields}")));
        let told = answers.each_ref().map(|answer| (answer.text(), answer.field("set-cookie")));
        assert_eq!(told, [("1", "a=b"), ("1", "")], "{place}");
    }
}

#[test]
fn force_makes_nothing_public_that_was_made_for_credentials() {
    for place in PLACES {
        for (fields, credentials) in [
            ("", "authorization: Bearer 1\r\n"),
            ("cache-control: max-age=60\r\n", "authorization: Bearer 1\r\n"),
            ("cache-control: no-store\r\n", "authorization: Bearer 1\r\n"),
            ("cache-control: no-cache, must-revalidate\r\n", "authorization: Bearer 1\r\n"),
            ("cache-control: s-maxage=60\r\n", "authorization: Basic YTpi\r\n"),
            ("cache-control: private\r\n", "authorization: Bearer 1\r\n"),
            ("", "cookie: a=b\r\n"),
            ("cache-control: max-age=60\r\n", "cookie: a=b\r\n"),
            ("cache-control: no-store, must-revalidate\r\n", "cookie: a=b\r\n"),
            ("expires: Fri, 01 Jan 2100 00:00:00 GMT\r\n", "cookie: a=b\r\n"),
        ] {
            let shop = numbered(fields);
            let mut forced = scene(place, "{ force: 1h }", &shop);
            let one = format!("x-api-key: anna\r\n{credentials}");
            let seen = bodies(&mut forced, &[&one, &one, BERT]);
            assert_eq!(seen, "123", "{place} {fields} {credentials}");
        }
    }
}

#[test]
fn what_is_public_is_public_with_credentials_too() {
    // A composed answer depends on all fields that are forwarded by name.
    for place in ["upstream", "endpoint"] {
        for (cache, fields) in [
            ("on", "cache-control: public, max-age=60\r\n"),
            ("on", "cache-control: s-maxage=60\r\n"),
            ("on", "cache-control: max-age=60, must-revalidate\r\n"),
            ("{ force: 1h }", "cache-control: public, max-age=1\r\nage: 5\r\n"),
            ("{ for: 1h }", "cache-control: public\r\n"),
        ] {
            let shop = numbered(fields);
            let credentials = format!("authorization: Bearer 1\r\ncookie: a=b\r\n{ANNA}");
            assert_eq!(
                bodies(&mut scene(place, cache, &shop), &[&credentials, BERT]),
                "11",
                "{place} {cache} {fields}"
            );
        }
        for (cache, fields) in [("{ for: 1h }", "cache-control: must-revalidate\r\n"), ("{ for: 1h }", "")] {
            let shop = numbered(fields);
            let credentials = format!("authorization: Bearer 1\r\n{ANNA}");
            assert_eq!(
                bodies(&mut scene(place, cache, &shop), &[&credentials, BERT]),
                "12",
                "{place} {cache} {fields}"
            );
        }
    }
}

#[test]
fn a_key_that_the_gateway_has_checked_is_a_credential_where_it_is_forwarded() {
    for place in PLACES {
        for cache in ["{ for: 1h }", "{ force: 1h }"] {
            let shop = numbered("");
            let mut forwarded = forwarding("forward: [x-api-key]", place, cache, &shop);
            assert_eq!(bodies(&mut forwarded, &[ANNA, BERT, ANNA]), "123", "{place} {cache}");
            let shop = numbered("");
            // It is not forwarded by `all`.
            let mut left = forwarding("forward: all", place, cache, &shop);
            assert_eq!(bodies(&mut left, &[ANNA, BERT, ANNA]), "111", "{place} {cache}");
        }
    }
}

#[test]
fn a_client_who_is_nobody_shares_nothing_private() {
    for place in PLACES {
        for by in [
            "$claims.sub",
            "'$claims.sub, $claims.team'",
            "'$claims.team, $claims.sub'",
            "'[$claims.sub, $claims.team]'",
            "'{sub: $claims.sub, team: $claims.team}'",
            "'$claims.sub // \"\"'",
            "'$claims.groups // [] | .[]'",
        ] {
            let shop = numbered("cache-control: private, max-age=60\r\n");
            let mut kept = scene(place, &format!("{{ for: 1h, private: {{ by: {by} }} }}"), &shop);
            assert_eq!(bodies(&mut kept, &[TEAM, TEAM, NOBODY, NOBODY]), "1234", "{place} {by}");
        }
    }
}

#[test]
fn a_private_answer_is_for_those_with_all_the_same_values() {
    for place in PLACES {
        for by in [
            "$claims.sub",
            "'$claims.sub, $claims.team'",
            "'[$claims.sub, $claims.team]'",
            "'$claims.sub, $claims.admin'",
            "'{sub: $claims.sub}'",
        ] {
            for fields in ["cache-control: private, max-age=60\r\n", "set-cookie: a=b\r\n", ""] {
                let shop = numbered(fields);
                let cache = format!("{{ for: 1h, private: {{ by: {by} }} }}");
                let mut kept = scene(place, &cache, &shop);
                let [anna, bert] = [ANNA, BERT].map(|client| format!("authorization: Bearer 1\r\n{client}"));
                assert_eq!(bodies(&mut kept, &[&anna, &bert, &anna, &bert]), "1212", "{place} {by} {fields}");
            }
        }
    }
}

#[test]
fn an_answer_that_varies_by_the_address_of_the_client_is_for_that_address() {
    for place in PLACES {
        for (forwarded, field) in [("x", "x-forwarded-for"), ("rfc7239", "forwarded")] {
            write_keys();
            let shop = Shop::open(move |asked, stream| {
                let fields =
                    format!("content-type: application/json\r\ncache-control: max-age=60\r\nvary: {field}\r\n");
                let seen = asked.field(field).replace('"', "'");
                stream.write_all(&answer(200, &fields, format!("{seen:?}")))
            });
            let (upstream, endpoint) = if place == "upstream" { ("on", "off") } else { ("off", "on") };
            let more = if place == "composed" { ", transform: ." } else { "" };
            let mut scene = Scene::new(
                &format!(
                    "upstreams: {{ shop: {{ url: 'http://${{SHOP}}', forwarded: {forwarded}, cache: {upstream} }} }}\n\
                     endpoints: {{ 'GET /{{*path}}': {{ cache: {endpoint}, pipeline: [ request: 'shop /{{path}}?*'{more} ] }} }}\n\
                     clients: {{ trust: [127.0.0.0/8] }}\n"
                ),
                &shop,
            );
            for address in ["192.0.2.1", "192.0.2.2", "192.0.2.1"] {
                // Who says nothing, and who says something that is not believed, are different clients.
                let answer = scene.get("/item", &format!("host: test\r\nx-forwarded-for: 192.0.2.9, {address}\r\n"));
                assert!(answer.text().contains(address), "{place} {forwarded}: {}", answer.text());
            }
        }
    }
}

/// An upstream cannot know that a field tells who the client is if the name of the field does not show it.
#[test]
fn a_call_that_tells_who_the_client_is_makes_its_answer_private_unless_its_field_says_so() {
    let shop = Shop::open(|_, stream| {
        stream.write_all(&answer(200, "content-type: application/json\r\ncache-control: public, max-age=60\r\n", "1"))
    });
    let (private, public) = ("private, max-age=60", "public, max-age=60");
    for (name, wanted) in [
        ("accept-language", private),
        ("x-tenant", private),
        ("x-clientele", private),
        ("x-client", public),
        ("x-real-ip", public),
        ("true-client-ip", public),
        ("forwarded", public),
    ] {
        for (upstream, call) in [("headers", "x"), ("x", "headers")] {
            let told = format!("headers: {{ {name}: '{{$client.address}}' }}");
            let (upstream, call) = match (upstream, call) {
                ("headers", _) => (told.as_str(), ""),
                _ => ("", told.as_str()),
            };
            let config = format!(
                "upstreams: {{ shop: {{ url: 'http://${{SHOP}}'{}{upstream} }} }}\n\
                 endpoints: {{ 'GET /{{*path}}': {{ pipeline: [ request: {{ to: shop, path: '/{{*path}}'{}{call} }} ] }} }}\n",
                if upstream.is_empty() { "" } else { ", " },
                if call.is_empty() { "" } else { ", " },
            );
            let mut scene = Scene::new(&config, &shop);
            let got = scene.get("/item", "host: test\r\n");
            // For a call with `headers` of its own, the answer is always for one client.
            let wanted = if call.is_empty() { wanted } else { private };
            assert_eq!(got.field("cache-control"), wanted, "{upstream}{call}");
        }
    }
}
