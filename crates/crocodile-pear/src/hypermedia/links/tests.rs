use std::sync::Arc;

use crocodile_pear_peers::test_rng::TestRng;

use super::*;

/// Maps what is at `in` to `out/shop`, but for paths that begin with `/no`.
struct Shop(LinkFate);

impl LinkMap for Shop {
    fn map(&mut self, link: &str, place: LinkPlace) -> LinkFate {
        let (path, host) = match link.strip_prefix("http://in").or_else(|| link.strip_prefix("//in")) {
            Some(path) => (path, "https://out"),
            None if place == LinkPlace::Link && !link.starts_with("//") && link.starts_with('/') => (link, ""),
            None => return LinkFate::Keep,
        };
        if path.starts_with("/no") { self.0.clone() } else { LinkFate::Replace(format!("{host}/shop{path}")) }
    }
}

fn names() -> Arc<LinkNames> {
    Arc::new(LinkNames::with(["avatar".to_owned()]))
}

fn json(text: &str, chunk: usize, fate: &LinkFate) -> String {
    let mut links = JsonLinks::new(names(), *fate == LinkFate::Remove);
    let (mut out, mut map) = (Vec::new(), Shop(fate.clone()));
    text.as_bytes().chunks(chunk).for_each(|part| links.feed(part, &mut map, &mut out));
    links.reset(&mut out);
    String::from_utf8(out).expect("text")
}

fn events(text: &str, chunk: usize, fate: &LinkFate) -> String {
    let mut links = EventLinks::new(names(), *fate == LinkFate::Remove);
    let (mut out, mut map) = (Vec::new(), Shop(fate.clone()));
    text.as_bytes().chunks(chunk).for_each(|part| links.feed(part, &mut map, &mut out));
    links.finish(&mut out);
    String::from_utf8(out).expect("text")
}

fn xml(text: &str, chunk: usize, fate: &LinkFate) -> String {
    let mut links = XmlLinks::new(names());
    let (mut out, mut map) = (Vec::new(), Shop(fate.clone()));
    text.as_bytes().chunks(chunk).for_each(|part| links.feed(part, &mut map, &mut out));
    links.finish(&mut out);
    String::from_utf8(out).expect("text")
}

/// The result is the same however the bytes arrive.
fn becomes(run: fn(&str, usize, &LinkFate) -> String, text: &str, fate: LinkFate, wanted: &str) {
    for chunk in [1, 2, 3, 5, 7, 11, 64, 1_000_000] {
        assert_eq!(run(text, chunk, &fate), wanted, "{text:.200} in parts of {chunk}");
    }
}

#[test]
fn urls_are_mapped_anywhere_and_paths_where_links_stand() {
    for (text, wanted) in [
        (
            r#"{"a":"http://in/x","b":["http://in/y",1,"/z"],"href":"/p{?a}","c":"see http://in/x"}"#,
            r#"{"a":"https://out/shop/x","b":["https://out/shop/y",1,"/z"],"href":"/shop/p{?a}","c":"see http://in/x"}"#,
        ),
        (
            r#"{"links":{"x":"/x","y":{"href":"/y","title":"/t"},"z":["/z"]},"next":["/n"],"self":{"a":"/b"}}"#,
            r#"{"links":{"x":"/shop/x","y":{"href":"/shop/y","title":"/t"},"z":["/shop/z"]},"next":["/shop/n"],"self":{"a":"/b"}}"#,
        ),
        (
            r#"{"\u0068ref":"\/q\u002f1","t":"say \"http://in/x\"","e":"\\","f":"http:\/\/in\/x?a=\u0026","g":"\ud83d\ude00"}"#,
            r#"{"\u0068ref":"\/shop\/q\/1","t":"say \"http://in/x\"","e":"\\","f":"https:\/\/out\/shop\/x?a=&","g":"\ud83d\ude00"}"#,
        ),
        (
            r#"{"avatar":"/a","x@odata.navigationLink":"/b","@odata.context":"/c","nextLink":"/d","path":"/e","http://in/x":1}"#,
            r#"{"avatar":"/shop/a","x@odata.navigationLink":"/shop/b","@odata.context":"/shop/c","nextLink":"/shop/d","path":"/e","http://in/x":1}"#,
        ),
        ("\"http://in/x\"\n{\"href\":\"/a\"}\n", "\"https://out/shop/x\"\n{\"href\":\"/shop/a\"}\n"),
        (")]}',\n{\"href\":\"//in/a\"}", ")]}',\n{\"href\":\"https://out/shop/a\"}"),
        ("{\"href\":\"/a", "{\"href\":\"/a"),
    ] {
        becomes(json, text, LinkFate::Keep, wanted);
    }
}

#[test]
fn links_that_nobody_serves_are_null_or_gone() {
    becomes(json, r#"{"href":"/no","next":"http://in/no/1"}"#, LinkFate::Null, r#"{"href":null,"next":null}"#);
    for (text, wanted) in [
        (r#"{"href":"/no","next":"http://in/no/1"}"#, "{}"),
        (r#"{"a":1,"href":"/no","b":2}"#, r#"{"a":1,"b":2}"#),
        (r#"{"href":"/no","b":2,"next":"/no","c":"http://in/no"}"#, r#"{"b":2}"#),
        (r#"["http://in/no",1,"http://in/no",2]"#, "[1,2]"),
        (
            r#"{"x":1,"_links":{"self":{"href":"/a"},"gone":{"templated":true,"href":"/no{?x}","title":"http://in/no"},"more":[{"href":"/no"},{"href":"/b","name":"n"}]},"y":2}"#,
            r#"{"x":1,"_links":{"self":{"href":"/shop/a"},"more":[{"href":"/shop/b","name":"n"}]},"y":2}"#,
        ),
        (
            r#"{"_links":{"gone":{"href":"/no"},"self":{"href":"/a","docs":"http://in/no"}}}"#,
            r#"{"_links":{"self":{"href":"/shop/a"}}}"#,
        ),
        (r#"{"links":{"self":"/no","next":"/a"},"id":7}"#, r#"{"links":{"next":"/shop/a"},"id":7}"#),
    ] {
        becomes(json, text, LinkFate::Remove, wanted);
    }
}

#[test]
fn what_is_too_long_or_too_deep_passes() {
    let text =
        format!(r#"{{"text":"{}","href":"/a","b":"/{}","href":"/b"}}"#, "x\\\"".repeat(40_000), "y".repeat(70_000));
    let wanted = text.replace("\"/a\"", "\"/shop/a\"").replace("\"/b\"", "\"/shop/b\"");
    becomes(json, &text, LinkFate::Remove, &wanted);
    let text = format!(r#"{{"href":"/{}","href":"/b"}}"#, "y".repeat(70_000));
    becomes(json, &text, LinkFate::Remove, &text.replace("\"/b\"", "\"/shop/b\""));
    let (open, close) = ("[".repeat(5_000), "]".repeat(5_000));
    let wanted = format!("{open}\"http://in/x\"{close},\"https://out/shop/x\"");
    becomes(json, &format!("{open}\"http://in/x\"{close},\"http://in/x\""), LinkFate::Keep, &wanted);
    // Tags of up to 64 KiB have their links mapped. The test takes a minute if each byte makes the search begin again.
    let text =
        format!(r#"<a title="{}" href="/a">x</a><a b="{}" href="/b"/>"#, "x'>".repeat(20_000), "y".repeat(70_000));
    becomes(xml, &text, LinkFate::Keep, &text.replace("\"/a\"", "\"/shop/a\""));
}

#[test]
fn parts_of_any_size_make_the_same() {
    let parts = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "/no",
        "http://in/no",
        "\"href\"",
        "\"_links\"",
        "\"a\"",
        "1",
        " ",
        "\\u00",
        "\"/x\"",
        "\"http://in/no\"",
        "http:",
        "<",
        ">",
        "<!--",
        "-->",
        "<a href='/x'>",
        "<![CDATA[",
        "]]>",
        "href=",
    ];
    let mut rng = TestRng(1);
    for _ in 0..600 {
        let text: String = (0..rng.below(24)).map(|_| rng.of(&parts)).collect();
        for fate in [LinkFate::Keep, LinkFate::Null, LinkFate::Remove] {
            for run in [json, xml] {
                let whole = run(&text, 100_000, &fate);
                for chunk in [1, 2, 3, 7] {
                    assert_eq!(run(&text, chunk, &fate), whole, "{text:?} {fate:?} in parts of {chunk}");
                }
            }
        }
    }
}

#[test]
fn events_have_links_in_their_data() {
    let text = "event: \"a\ndata: {\"href\":\"/a\"}\nid: http://in/x\n\ndata:{\ndata: \"href\": \"/b\"\ndata: }\n\ndata: \"open\n\ndata: \
                {\"next\":\"/c\"}\r\n\r\n: \"http://in/x\"\n";
    let wanted = "event: \"a\ndata: {\"href\":\"/shop/a\"}\nid: http://in/x\n\ndata:{\ndata: \"href\": \"/shop/b\"\ndata: }\n\ndata: \
                  \"open\n\ndata: {\"next\":\"/shop/c\"}\r\n\r\n: \"http://in/x\"\n";
    becomes(events, text, LinkFate::Keep, wanted);
}

#[test]
fn xml_has_links_in_attributes_and_texts() {
    for (text, wanted) in [
        (
            r#"<?xml version="1.0"?><!-- <a href="/x"> --><feed xmlns="http://in/ns" xml:base="http://in/"><link rel='next' href='/a?b=1&amp;c=2'/><id>http://in/e/1</id><x>/a</x></feed>"#,
            r#"<?xml version="1.0"?><!-- <a href="/x"> --><feed xmlns="http://in/ns" xml:base="https://out/shop/"><link rel='next' href='/shop/a?b=1&amp;c=2'/><id>https://out/shop/e/1</id><x>/a</x></feed>"#,
        ),
        (
            r#"<r xsi:schemaLocation="http://in/a http://in/b"><content src = "/c"/><enclosure url="http://in/f" title="a>b"/><![CDATA[<a href="/x">]]></r>"#,
            r#"<r xsi:schemaLocation="http://in/a http://in/b"><content src = "/shop/c"/><enclosure url="https://out/shop/f" title="a>b"/><![CDATA[<a href="/x">]]></r>"#,
        ),
        (
            "<!DOCTYPE a [<!ENTITY b \"http://in/x\">]><a>\n http://in/x \n</a>",
            "<!DOCTYPE a [<!ENTITY b \"http://in/x\">]><a>\n https://out/shop/x \n</a>",
        ),
    ] {
        becomes(xml, text, LinkFate::Keep, wanted);
    }
    becomes(xml, "<a href='/no' b='1'>http://in/no</a>", LinkFate::Remove, "<a b='1'></a>");
}
