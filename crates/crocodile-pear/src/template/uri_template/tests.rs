use crate::json;
use crate::template::uri_template::*;

/// The variables of RFC 6570, 3.2.
const VARIABLES: &str = r#"{
    "count": ["one", "two", "three"], "dom": ["example", "com"], "dub": "me/too", "hello": "Hello World!",
    "half": "50%", "var": "value", "who": "fred", "base": "http://example.com/home/", "path": "/foo/bar",
    "list": ["red", "green", "blue"], "keys": {"semi": ";", "dot": ".", "comma": ","}, "v": "6", "x": "1024",
    "y": "768", "empty": "", "empty_keys": {}, "undef": null, "empty_list": [null]
}"#;

fn expanded(template: &str, variables: &str) -> Result<String, Error> {
    expand(template, &json::read(&variables.to_owned().into()).expect("JSON"))
}

fn check(examples: &[(&str, &str)]) {
    for (template, wanted) in examples {
        let made = expanded(template, VARIABLES);
        assert_eq!(made.as_deref().map_err(Error::detail), Ok(*wanted), "{template}");
    }
}

#[test]
fn the_four_levels_are_expanded_as_the_introduction_has_it() {
    check(&[
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{+var}", "value"),
        ("{+hello}", "Hello%20World!"),
        ("{+path}/here", "/foo/bar/here"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("X{#var}", "X#value"),
        ("X{#hello}", "X#Hello%20World!"),
        ("map?{x,y}", "map?1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("{+x,hello,y}", "1024,Hello%20World!,768"),
        ("{+path,x}/here", "/foo/bar,1024/here"),
        ("{#x,hello,y}", "#1024,Hello%20World!,768"),
        ("{#path,x}/here", "#/foo/bar,1024/here"),
        ("X{.var}", "X.value"),
        ("X{.x,y}", "X.1024.768"),
        ("{/var}", "/value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{;x,y}", ";x=1024;y=768"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{?x,y}", "?x=1024&y=768"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("{var:3}", "val"),
        ("{var:30}", "value"),
        ("{list}", "red,green,blue"),
        ("{list*}", "red,green,blue"),
        ("{keys}", "semi,%3B,dot,.,comma,%2C"),
        ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
        ("{+path:6}/here", "/foo/b/here"),
        ("{+list}", "red,green,blue"),
        ("{+list*}", "red,green,blue"),
        ("{+keys}", "semi,;,dot,.,comma,,"),
        ("{+keys*}", "semi=;,dot=.,comma=,"),
        ("{#path:6}/here", "#/foo/b/here"),
        ("{#list}", "#red,green,blue"),
        ("{#list*}", "#red,green,blue"),
        ("{#keys}", "#semi,;,dot,.,comma,,"),
        ("{#keys*}", "#semi=;,dot=.,comma=,"),
        ("X{.var:3}", "X.val"),
        ("X{.list}", "X.red,green,blue"),
        ("X{.list*}", "X.red.green.blue"),
        ("X{.keys}", "X.semi,%3B,dot,.,comma,%2C"),
        ("X{.keys*}", "X.semi=%3B.dot=..comma=%2C"),
        ("{/var:1,var}", "/v/value"),
        ("{/list}", "/red,green,blue"),
        ("{/list*}", "/red/green/blue"),
        ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
        ("{/keys}", "/semi,%3B,dot,.,comma,%2C"),
        ("{/keys*}", "/semi=%3B/dot=./comma=%2C"),
        ("{;hello:5}", ";hello=Hello"),
        ("{;list}", ";list=red,green,blue"),
        ("{;list*}", ";list=red;list=green;list=blue"),
        ("{;keys}", ";keys=semi,%3B,dot,.,comma,%2C"),
        ("{;keys*}", ";semi=%3B;dot=.;comma=%2C"),
        ("{?var:3}", "?var=val"),
        ("{?list}", "?list=red,green,blue"),
        ("{?list*}", "?list=red&list=green&list=blue"),
        ("{?keys}", "?keys=semi,%3B,dot,.,comma,%2C"),
        ("{?keys*}", "?semi=%3B&dot=.&comma=%2C"),
        ("{&var:3}", "&var=val"),
        ("{&list}", "&list=red,green,blue"),
        ("{&list*}", "&list=red&list=green&list=blue"),
        ("{&keys}", "&keys=semi,%3B,dot,.,comma,%2C"),
        ("{&keys*}", "&semi=%3B&dot=.&comma=%2C"),
    ]);
}

#[test]
fn expressions_are_expanded_as_section_3_2_has_it() {
    check(&[
        ("{count}", "one,two,three"),
        ("{count*}", "one,two,three"),
        ("{/count}", "/one,two,three"),
        ("{/count*}", "/one/two/three"),
        ("{;count}", ";count=one,two,three"),
        ("{;count*}", ";count=one;count=two;count=three"),
        ("{?count}", "?count=one,two,three"),
        ("{?count*}", "?count=one&count=two&count=three"),
        ("{&count*}", "&count=one&count=two&count=three"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("O{undef}X", "OX"),
        ("{x,y}", "1024,768"),
        ("?{x,empty}", "?1024,"),
        ("?{x,undef}", "?1024"),
        ("?{undef,y}", "?768"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("O{+empty}X", "OX"),
        ("O{+undef}X", "OX"),
        ("up{+path}{var}/here", "up/foo/barvalue/here"),
        ("{#half}", "#50%25"),
        ("foo{#empty}", "foo#"),
        ("foo{#undef}", "foo"),
        ("{.who}", ".fred"),
        ("{.who,who}", ".fred.fred"),
        ("{.half,who}", ".50%25.fred"),
        ("www{.dom*}", "www.example.com"),
        ("X{.empty}", "X."),
        ("X{.undef}", "X"),
        ("X{.empty_keys}", "X"),
        ("X{.empty_keys*}", "X"),
        ("{/who}", "/fred"),
        ("{/who,who}", "/fred/fred"),
        ("{/half,who}", "/50%25/fred"),
        ("{/who,dub}", "/fred/me%2Ftoo"),
        ("{/var,empty}", "/value/"),
        ("{/var,undef}", "/value"),
        ("{;who}", ";who=fred"),
        ("{;half}", ";half=50%25"),
        ("{;empty}", ";empty"),
        ("{;v,empty,who}", ";v=6;empty;who=fred"),
        ("{;v,bar,who}", ";v=6;who=fred"),
        ("{;x,y,undef}", ";x=1024;y=768"),
        ("{?who}", "?who=fred"),
        ("{?half}", "?half=50%25"),
        ("{?x,y,undef}", "?x=1024&y=768"),
        ("{&who}", "&who=fred"),
        ("{&half}", "&half=50%25"),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("{&x,y,undef}", "&x=1024&y=768"),
        ("a{?empty_list,empty_keys*}b", "ab"),
    ]);
}

#[test]
fn values_are_written_by_their_types() {
    let made = expanded(
        "/a{?n,b,long,u,f*}",
        r#"{"n":1.50,"b":true,"long":12345678901234567890123,"u":"\u00e9","f":{"a b":"","c":2}}"#,
    );
    assert_eq!(made.expect("expanded"), "/a?n=1.50&b=true&long=12345678901234567890123&u=%C3%A9&a%20b=&c=2");
    assert_eq!(
        expanded("/\u{e9} {+u:2}", r#"{"u":"\u00e9\u00e9\u00e9"}"#).expect("expanded"),
        "/%C3%A9%20%C3%A9%C3%A9"
    );
    assert_eq!(expanded("{+a}", r#"{"a":"a%20b%zz%"}"#).expect("expanded"), "a%20b%25zz%25");
    assert_eq!(expanded("/x{?a}", "null").expect("expanded"), "/x");
    assert_eq!(expanded("/x{?a.b,a%20}", r#"{"a.b":1,"a%20":2}"#).expect("expanded"), "/x?a.b=1&a%20=2");
}

#[test]
fn what_is_no_template_is_refused() {
    for wrong in [
        "{",
        "}",
        "/a{b",
        "/a}b",
        "{}",
        "{+}",
        "{a b}",
        "{a,}",
        "{=a}",
        "{,a}",
        "{!a}",
        "{@a}",
        "{|a}",
        "{a:0}",
        "{a:10000}",
        "{a:x}",
        "{a:}",
        "{a*:3}",
        "{a:3*}",
        "{a{b}}",
        "{.a.}",
        "{a..b}",
        "{%zz}",
        "{$a}",
        "{keys:1}",
        "{list:1}",
    ] {
        assert_eq!(expanded(wrong, VARIABLES).err().map(|error| error.kind()), Some(Kind::Unusable), "{wrong}");
    }
    for unfit in [r#"{"a":[[1]]}"#, r#"{"a":{"b":{}}}"#] {
        assert_eq!(expanded("{a}", unfit).err().map(|error| error.kind()), Some(Kind::Expression), "{unfit}");
    }
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(LENGTH));
    assert!(expanded("/{a}{a}", &long).is_err());
}

#[test]
fn a_value_cannot_climb_out_of_its_place() {
    for (template, variables) in [
        ("/u/{id}/x", r#"{"id":".."}"#),
        ("/u/{id}", r#"{"id":"."}"#),
        ("/u/{+id}", r#"{"id":"a/../../admin"}"#),
        ("/u/{+id}", r#"{"id":"%2e%2e/admin"}"#),
        ("/u/{id}", r#"{"id":"../admin"}"#),
        ("/u/{id}", r#"{"id":"..\\admin"}"#),
        ("/u/.{id}", r#"{"id":"."}"#),
        ("/u/{a}{b}", r#"{"a":".","b":"."}"#),
        ("/u{/id*}", r#"{"id":["a","..","b"]}"#),
        ("/u/{a}.", r#"{"a":"."}"#),
        ("/u/{+a}/x", r#"{"a":"%2e%2e"}"#),
        ("/u/{a};/x", r#"{"a":".."}"#),
        ("/u/{a}", r#"{"a":"..;"}"#),
        ("/u/{+a}", r#"{"a":"..%c0%afadmin"}"#),
        ("/u/{a}", r#"{"a":"..%c0%afadmin"}"#),
        ("/u/{+a}", r#"{"a":"%e0%80%ae%e0%80%ae"}"#),
        ("/u/{+a}", r#"{"a":"%f0%80%80%ae."}"#),
        ("/u/{+a}{+b}", r#"{"a":".%c0","b":"%ae"}"#),
        ("/u/{+a}", r#"{"a":"..%ff"}"#),
    ] {
        let refused = expanded(template, variables).err().map(|error| error.kind());
        assert_eq!(refused, Some(Kind::Expression), "{template} {variables}");
    }
    for (template, variables, wanted) in [
        ("../u/{id}", r#"{"id":"7"}"#, "../u/7"),
        ("/u{?id}", r#"{"id":".."}"#, "/u?id=.."),
        ("/u/{id}", r#"{"id":"a..b"}"#, "/u/a..b"),
        ("../{id}", "{}", "../"),
    ] {
        assert_eq!(expanded(template, variables).expect(template), wanted);
    }
}

#[test]
fn the_variables_of_a_template_are_named_once_in_their_order() {
    for (template, wanted) in [
        ("/orders{?state,sort*}", &["state", "sort"][..]),
        ("/a/{id}/b{/id}{+path:3}{#x.y}{&id}", &["id", "path", "x.y"]),
        ("/plain", &[]),
    ] {
        assert_eq!(
            variables(template).as_deref(),
            Some(&wanted.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()[..])
        );
    }
    for wrong in ["/a{", "/a}", "/a{}", "/{a,}", "/{a b}"] {
        assert_eq!(variables(wrong), None, "{wrong}");
    }
}
