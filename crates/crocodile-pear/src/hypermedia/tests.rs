use super::*;

fn leads(form: RelationFormat, name: &str, document: &str) -> Vec<String> {
    chosen(form, name, None, Preference::Embedded, document)
}

fn chosen(
    form: RelationFormat,
    name: &str,
    link_name: Option<&str>,
    prefer: Preference,
    document: &str,
) -> Vec<String> {
    let relation = Relation { form, name: name.to_owned(), link_name: link_name.map(str::to_owned), prefer };
    let document = Raw::check(&document.to_owned().into()).expect("JSON");
    let text = |raw: &Raw| String::from_utf8(raw.bytes().to_vec()).expect("UTF-8");
    let leads = super::leads(&relation, &document).into_iter().map(|lead| match lead {
        RelationTarget::Link(link) => format!("link {}", text(&link)),
        RelationTarget::Part(part) => format!("part {}", text(&part)),
        RelationTarget::Named(named) => {
            format!("{} {} {}", named.kind, named.id, named.included.as_ref().map(text).unwrap_or_default())
        }
    });
    leads.collect()
}

/// The example of the draft (section 6), shortened, with both forms of the same relation.
const HAL: &str = r#"{
    "_links": {
        "self": {"href": "/orders"},
        "curies": [{"name": "acme", "href": "https://docs.acme.com/relations/{rel}", "templated": true}],
        "acme:widgets": {"href": "/widgets"},
        "find": {"href": "/orders{?id}", "templated": true},
        "admin": [{"href": "/admins/2", "name": "Fred"}, {"href": "/admins/5", "name": "Kate"}],
        "author": {"href": "/authors/7"}, "gone": null, "empty": [], "few": {"href": "/few"}
    },
    "_embedded": {"author": {"name": "Anna", "n": 1.10}, "order": [{"id": 1}, {"id": 2}], "none": null, "few": [], "acme:part": {"p": 1}}
}"#;

#[test]
fn hal_has_parts_and_links() {
    let hal = |name| leads(RelationFormat::Hal, name, HAL);
    assert_eq!(hal("author"), [r#"part {"name": "Anna", "n": 1.10}"#]);
    assert_eq!(chosen(RelationFormat::Hal, "author", None, Preference::Link, HAL), [r#"link "/authors/7""#]);
    assert_eq!(
        chosen(RelationFormat::Hal, "order", None, Preference::Link, HAL),
        [r#"part {"id": 1}"#, r#"part {"id": 2}"#]
    );
    assert_eq!(hal("find"), [r#"link "/orders{?id}""#]);
    assert_eq!(hal("admin"), [r#"link "/admins/2""#, r#"link "/admins/5""#]);
    assert_eq!(chosen(RelationFormat::Hal, "admin", Some("Kate"), Preference::Embedded, HAL), [r#"link "/admins/5""#]);
    assert_eq!(chosen(RelationFormat::Hal, "author", Some("Kate"), Preference::Embedded, HAL), [""; 0]);
    for nothing in ["gone", "empty", "none", "few", "other", "widgets", ""] {
        assert_eq!(hal(nothing), [""; 0], "{nothing}");
    }
    for name in ["acme:widgets", "https://docs.acme.com/relations/widgets"] {
        assert_eq!(hal(name), [r#"link "/widgets""#]);
    }
    assert_eq!(hal("https://docs.acme.com/relations/part"), [r#"part {"p": 1}"#]);
    let unnamed = r#"{"_links":{"curies":[{"name":"a","href":"/r/{rel}"}],"/r/x":{"href":"/7"}}}"#;
    assert_eq!(leads(RelationFormat::Hal, "a:x", unnamed), [r#"link "/7""#]);
    for odd in ["[]", "3", "{}", r#"{"_links":[],"_embedded":7}"#, r#"{"_links":{"author":"x"}}"#] {
        assert_eq!(leads(RelationFormat::Hal, "author", odd), [""; 0], "{odd}");
    }
}

/// The example of JSON:API's front page, shortened.
const ARTICLE: &str = r#"{
    "links": {"self": "/articles", "next": {"href": "/articles?page=2"}},
    "data": {"type": "articles", "id": "1", "links": {"self": "/articles/1"}, "relationships": {
        "author": {"links": {"related": "/articles/1/author"}, "data": {"type": "people", "id": "9"}},
        "comments": {"links": {"related": "/articles/1/comments"},
            "data": [{"type": "comments", "id": "12"}, {"type": "comments", "id": "5"}]},
        "editor": {"links": {"related": "/articles/1/editor"}, "data": {"type": "people", "id": "3"}},
        "owner": {"links": {"related": "/articles/1/owner"}, "data": null},
        "tags": {"data": []}, "bare": {"links": {"related": {"href": "/bare"}}}, "meta": {"meta": {}}
    }},
    "included": [
        {"type": "people", "id": "9", "attributes": {"firstName": "Dan"}},
        {"type": "comments", "id": "5", "attributes": {"body": "First!"}},
        {"type": "comments", "id": "12", "attributes": {"body": "I like XML better"}}
    ]
}"#;

/// Otherwise a document of 200 kB could become 200 MB: one half is a resource, and the other half names it 2,000 times.
#[test]
fn a_resource_that_a_relationship_names_twice_is_there_once() {
    let one = r#"{"type":"b","id":"1"}"#;
    let document = |linkage: &str| {
        let data = format!(r#"{{"type":"a","id":"0","relationships":{{"r":{{"data":[{linkage}]}}}}}}"#);
        format!(r#"{{"data":{data},"included":[{{"type":"b","id":"1","attributes":{{"t":1}}}}]}}"#)
    };
    let many = document(&[one; 1000].join(","));
    let whole = r#"part {"data":[{"type":"b","id":"1","attributes":{"t":1}}]}"#;
    assert_eq!(leads(RelationFormat::JsonApi, "r", &many), [whole]);
    let named = document(&[one, r#"{"type":"c","id":"1"}"#, one, r#"{"id":"1","type":"c"}"#].join(","));
    let of = r#"b 1 {"data":{"type":"b","id":"1","attributes":{"t":1}}}"#;
    assert_eq!(leads(RelationFormat::JsonApi, "r", &named), [of, "c 1 "]);
}

#[test]
fn json_api_has_included_resources_and_links() {
    let api = |name| leads(RelationFormat::JsonApi, name, ARTICLE);
    assert_eq!(api("author"), [r#"part {"data":{"type": "people", "id": "9", "attributes": {"firstName": "Dan"}}}"#]);
    let comments = api("comments");
    let order: Vec<_> = ["better", "First"].map(|word| comments[0].find(word)).into_iter().collect();
    assert!(comments.len() == 1 && order[0].is_some() && order[0] < order[1], "{comments:?}");
    assert_eq!(
        chosen(RelationFormat::JsonApi, "author", None, Preference::Link, ARTICLE),
        [r#"link "/articles/1/author""#]
    );
    assert_eq!(api("editor"), [r#"link "/articles/1/editor""#]);
    assert_eq!(api("owner"), [r#"part {"data":null}"#]);
    assert_eq!(api("tags"), [r#"part {"data":[]}"#]);
    assert_eq!(api("bare"), [r#"link "/bare""#]);
    assert_eq!(api("next"), [r#"link "/articles?page=2""#]);
    assert_eq!(api("meta"), [""; 0]);
    let resource = r#"{"type":"a","id":"1","links":{"self":"/a/1"},"relationships":{"b":{"links":{"related":"/b"}}}}"#;
    assert_eq!(leads(RelationFormat::JsonApi, "b", resource), [r#"link "/b""#]);
    assert_eq!(leads(RelationFormat::JsonApi, "self", resource), [r#"link "/a/1""#]);
    let named = r#"{"data":{"relationships":{"one":{"data":{"type":"p","id":7}},"all":{"data":[{"type":"p","id":"1"},{"type":"q","id":"2"}]}}},
        "included":[{"type":"q","id":"2"}]}"#;
    assert_eq!(leads(RelationFormat::JsonApi, "one", named), ["p 7 "]);
    assert_eq!(leads(RelationFormat::JsonApi, "all", named), ["p 1 ", r#"q 2 {"data":{"type":"q","id":"2"}}"#]);
    for odd in ["[]", "3", "{}", r#"{"data":[],"links":7}"#, r#"{"relationships":[]}"#] {
        assert_eq!(leads(RelationFormat::JsonApi, "b", odd), [""; 0], "{odd}");
    }
}

/// The example of Siren's own page, shortened.
const ORDER: &str = r#"{"class": ["order"], "properties": {"orderNumber": 42}, "entities": [
    {"class": ["items", "collection"], "rel": ["http://x.io/rels/order-items"], "href": "http://api.x.io/orders/42/items"},
    {"class": ["info", "customer"], "rel": ["http://x.io/rels/customer"], "properties": {"name": "Peter"},
     "links": [{"rel": ["self"], "href": "http://api.x.io/customers/pj123"}]}],
    "links": [{"rel": ["self"], "href": "/orders/42"}, {"rel": ["previous", "up"], "href": "/orders/41"}]}"#;

#[test]
fn siren_has_sub_entities_and_links() {
    let siren = |name| leads(RelationFormat::Siren, name, ORDER);
    assert_eq!(siren("http://x.io/rels/order-items"), [r#"link "http://api.x.io/orders/42/items""#]);
    assert!(siren("http://x.io/rels/customer")[0].starts_with(r#"part {"class": ["info""#));
    let customer = chosen(RelationFormat::Siren, "http://x.io/rels/customer", None, Preference::Link, ORDER);
    assert_eq!(customer, [r#"link "http://api.x.io/customers/pj123""#]);
    assert_eq!(
        (siren("self"), siren("UP")),
        (vec![r#"link "/orders/42""#.to_owned()], vec![r#"link "/orders/41""#.to_owned()])
    );
    assert_eq!(siren("next"), [""; 0]);
    for odd in ["[]", "3", "{}", r#"{"entities":{},"links":[1,{"rel":7,"href":1}]}"#] {
        assert_eq!(leads(RelationFormat::Siren, "self", odd), [""; 0], "{odd}");
    }
}

fn described(name: &str, document: &str) -> Option<String> {
    let document = Raw::check(&document.to_owned().into()).expect("JSON");
    let text = |raw: &Raw| String::from_utf8(raw.bytes().to_vec()).expect("UTF-8");
    let found = action(&document, name)?;
    let fields: Vec<String> = found.fields.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    Some(format!("{} {} {} {}", found.method, text(&found.target), found.content_type, fields.join("&")))
}

#[test]
fn actions_have_their_method_fields_and_type() {
    // The example of Siren's own page.
    let siren = r#"{"actions": [{"name": "add-item", "title": "Add Item", "method": "POST", "href": "http://api.x.io/orders/42/items",
        "type": "application/x-www-form-urlencoded", "fields": [{"name": "orderNumber", "type": "hidden", "value": "42"},
        {"name": "productCode", "type": "text"}, {"name": "quantity", "type": "number"}]}, {"name": "bare", "href": "/b"}]}"#;
    let wanted = r#"POST "http://api.x.io/orders/42/items" application/x-www-form-urlencoded orderNumber="42""#;
    assert_eq!(described("add-item", siren).as_deref(), Some(wanted));
    assert_eq!(described("bare", siren).as_deref(), Some(r#"GET "/b" application/x-www-form-urlencoded "#));
    // The example of HAL-FORMS, shortened.
    let forms = r#"{"_links": {"self": {"href": "http://api.example.org/rels/create"}}, "_templates": {
        "default": {"title": "Create", "method": "POST", "contentType": "application/json", "properties": [
            {"name": "title", "required": true, "value": "", "prompt": "Title"}, {"name": "completed", "value": "false"}]},
        "other": {"method": "DELETE", "target": "/there"}}}"#;
    let wanted = r#"POST "http://api.example.org/rels/create" application/json title=""&completed="false""#;
    assert_eq!(described("default", forms).as_deref(), Some(wanted));
    assert_eq!(described("other", forms).as_deref(), Some(r#"DELETE "/there" application/json "#));
    for odd in ["{}", "[]", r#"{"actions": {}, "_templates": []}"#, r#"{"_templates": {"default": {}}}"#] {
        assert_eq!(described("default", odd), None, "{odd}");
    }
}

/// The resources of a document of a megabyte: where each is looked for among all others, a test takes minutes.
const MANY: usize = 10_000;

fn listed(item: impl Fn(usize) -> String) -> String {
    (0..MANY).map(item).collect::<Vec<_>>().join(",")
}

#[test]
fn a_relation_among_many_is_found_at_once() {
    let curies = listed(|at| format!(r#"{{"name":"c{at}","href":"/rels/{at}/{{rel}}"}}"#));
    let links = listed(|at| format!(r#""c{at}:r":{{"href":"/{at}"}}"#));
    let hal = format!(r#"{{"_links":{{"curies":[{curies}],{links}}}}}"#);
    assert_eq!(leads(RelationFormat::Hal, "other", &hal), [""; 0]);
    assert_eq!(leads(RelationFormat::Hal, "/rels/9999/r", &hal), [r#"link "/9999""#]);
    // One long template, which each name would stand for.
    let template = "x".repeat(200_000);
    let hal = format!(r#"{{"_links":{{"curies":[{{"name":"c","href":"/{template}/{{rel}}"}}],{}}}}}"#, {
        listed(|at| format!(r#""c:{at}":{{"href":"/{at}"}}"#))
    });
    assert_eq!(leads(RelationFormat::Hal, "c:other", &hal), [""; 0]);
    assert_eq!(leads(RelationFormat::Hal, "c:7", &hal), [r#"link "/7""#]);
    // A template with many places, and names that stand for addresses of the same length.
    let template = "{rel}/".repeat(1_300);
    let links = listed(|at| format!(r#""c:{at:04}":{{"href":"/{at}"}}"#));
    let hal = format!(r#"{{"_links":{{"curies":[{{"name":"c","href":"{template}"}}],{links}}}}}"#);
    assert_eq!(leads(RelationFormat::Hal, "c:none", &hal), [""; 0]);
    assert_eq!(leads(RelationFormat::Hal, &"0007/".repeat(1_300), &hal), [r#"link "/7""#]);
    assert_eq!(leads(RelationFormat::Hal, &"0007/".repeat(1_299), &hal), [""; 0]);
}

#[test]
fn many_resources_that_name_included_ones_are_resolved_at_once() {
    let relation =
        Relation { form: RelationFormat::JsonApi, name: "r".to_owned(), link_name: None, prefer: Preference::Embedded };
    let data = listed(|at| {
        format!(r#"{{"type":"a","id":"{at}","relationships":{{"r":{{"data":{{"type":"b","id":"{at}"}}}}}}}}"#)
    });
    let included = listed(|at| format!(r#"{{"type":"b","id":"{at}","twice":false}}"#));
    let twice = r#"{"type":"b","id":"0","twice":true}"#;
    let document = format!(r#"{{"data":[{data}],"included":[{included},{twice}]}}"#);
    let document = Raw::check(&document.into()).expect("JSON");
    let part = |holder: &Holder| match holder.leads.as_slice() {
        [RelationTarget::Part(part)] => String::from_utf8(part.bytes().to_vec()).expect("UTF-8"),
        other => panic!("{other:?}"),
    };
    let wanted = |at: usize| format!(r#"{{"data":{{"type":"b","id":"{at}","twice":false}}}}"#);
    let found = holders(&relation, &document, None);
    assert_eq!(found.iter().map(part).collect::<Vec<_>>(), (0..MANY).map(wanted).collect::<Vec<_>>());
    // Parts of the document, whose parts are where it was.
    let source = CompoundDocument::from_document(document);
    for at in 0..MANY {
        let own = format!(r#"{{"type":"a","relationships":{{"r":{{"data":{{"type":"b","id":"{at}"}}}}}}}}"#);
        let found = holders(&relation, &Raw::check(&own.into()).expect("JSON"), Some(&source));
        assert_eq!(found.iter().map(part).collect::<Vec<_>>(), [wanted(at)]);
    }
}
