//! The examples of the formats' specifications, and documents that mean harm.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::error::{Error, Kind};
use crate::json::Raw;

fn rules(format: Format) -> PlainRules {
    PlainRules { format, depth: None, links: None, lists: Vec::new(), bound: 1 << 20 }
}

fn raw(document: &str) -> Raw {
    Raw::check(&document.to_owned().into()).expect("JSON")
}

fn whole(plain: &PlainRules, document: &str) -> Result<Value, Error> {
    let made = super::document(plain, &raw(document))?;
    Ok(serde_json::from_slice(made.bytes()).expect("JSON"))
}

fn streamed(plain: &PlainRules, document: &str, size: usize) -> Result<String, Error> {
    let mut stream = PlainStream::new(Arc::new(plain.clone()));
    let mut out = Vec::new();
    for piece in document.as_bytes().chunks(size) {
        stream.push(Bytes::copy_from_slice(piece));
        loop {
            match stream.write(usize::MAX, &mut out)? {
                WriteProgress::Heavy => stream.settle(&mut out)?,
                WriteProgress::More => {}
                WriteProgress::Wait => break,
            }
        }
    }
    stream.finish(&mut out)?;
    loop {
        let mut piece = Vec::new();
        let written = stream.rest(1, &mut piece)?;
        out.extend_from_slice(&piece);
        if written != WriteProgress::More {
            return Ok(String::from_utf8(out).expect("UTF-8"));
        }
    }
}

/// The plain form of a document, which is the same whole, in pieces of any size, and in one.
fn plain(plain: &PlainRules, document: &str) -> Value {
    let made = whole(plain, document).expect("plain");
    if plain.format.streams() {
        for size in [1, 2, 7, 100, document.len()] {
            let text = streamed(plain, document, size).unwrap_or_else(|error| panic!("{error:?} in {document}"));
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(value, made, "by {size}: {document}");
        }
    }
    made
}

/// draft-kelly-json-hal, section 6.
const HAL_ORDERS: &str = r#"{
    "_links": {
        "self": { "href": "/orders" },
        "curies": [{ "name": "ea", "href": "http://example.com/docs/rels/{rel}", "templated": true }],
        "next": { "href": "/orders?page=2" },
        "ea:find": { "href": "/orders{?id}", "templated": true },
        "ea:admin": [{ "href": "/admins/2", "title": "Fred" }, { "href": "/admins/5", "title": "Kate" }]
    },
    "currentlyProcessing": 14,
    "shippedToday": 20,
    "_embedded": {
        "ea:order": [{
            "_links": { "self": { "href": "/orders/123" }, "ea:basket": { "href": "/baskets/98712" },
                "ea:customer": { "href": "/customers/7809" } },
            "total": 30.00, "currency": "USD", "status": "shipped"
        }, {
            "_links": { "self": { "href": "/orders/124" }, "ea:basket": { "href": "/baskets/97213" },
                "ea:customer": { "href": "/customers/12369" } },
            "total": 20.00, "currency": "USD", "status": "processing"
        }]
    }
}"#;

#[test]
fn hal_has_its_fields_and_what_is_embedded() {
    let hal = rules(Format::Hal);
    assert_eq!(
        plain(&hal, HAL_ORDERS),
        json!({"currentlyProcessing": 14, "shippedToday": 20, "ea:order": [
            {"total": 30.00, "currency": "USD", "status": "shipped"},
            {"total": 20.00, "currency": "USD", "status": "processing"}]})
    );
    let linked = PlainRules { links: Some("links".into()), ..hal.clone() };
    let made = plain(&linked, HAL_ORDERS);
    assert_eq!(
        made["links"],
        json!({"self": "/orders", "next": "/orders?page=2", "ea:find": "/orders{?id}",
            "ea:admin": ["/admins/2", "/admins/5"]})
    );
    assert_eq!(made["ea:order"][1]["links"]["ea:customer"], json!("/customers/12369"));
    let flat = PlainRules { depth: Some(0), ..hal.clone() };
    assert_eq!(plain(&flat, HAL_ORDERS), json!({"currentlyProcessing": 14, "shippedToday": 20}));
    // Numbers and keys stay as they are written.
    let text = streamed(&hal, HAL_ORDERS, 50).expect("plain");
    assert!(text.contains(r#""total": 30.00, "currency": "USD""#), "{text}");
}

#[test]
fn hal_keeps_what_is_no_part_of_the_format() {
    let hal = rules(Format::Hal);
    for (document, wanted) in [
        (
            r#"{"_embedded":{"a":{"n":1,"_embedded":{"b":[{"m":2,"_links":{}}]}},"none":[],"nil":null},"x":[{"y":1}]}"#,
            json!({"a": {"n": 1, "b": [{"m": 2}]}, "none": [], "nil": null, "x": [{"y": 1}]}),
        ),
        // The first of a name counts.
        (
            r#"{"a":1,"_embedded":{"a":{"n":1},"b":{"n":2}},"b":3,"c":4,"_links":null}"#,
            json!({"a": 1, "b": {"n": 2}, "c": 4}),
        ),
        // A document that a step has put into the item.
        (
            r#"{"id":1,"customer":{"name":"A","_links":{"self":{"href":"/c"}},"_embedded":{"x":{"z":1}}},"all":[{"k":1,"_links":{}}]}"#,
            json!({"id": 1, "customer": {"name": "A", "x": {"z": 1}}, "all": [{"k": 1}]}),
        ),
        (r#"[{"a":1,"_links":{}},2,null]"#, json!([{"a": 1}, 2, null])),
        (r#"{"_templates":{"default":{}},"_links":{}}"#, json!({})),
        ("{}", json!({})),
        ("[]", json!([])),
        ("7", json!(7)),
    ] {
        assert_eq!(plain(&hal, document), wanted, "{document}");
    }
    let lists = PlainRules { lists: vec!["a".into()], ..hal.clone() };
    assert_eq!(plain(&lists, r#"{"_embedded":{"a":{"n":1},"b":{"n":2}}}"#), json!({"a": [{"n": 1}], "b": {"n": 2}}));
    let two = PlainRules { depth: Some(1), ..hal };
    assert_eq!(plain(&two, r#"{"_embedded":{"a":{"n":1,"_embedded":{"b":{"m":2}}}}}"#), json!({"a": {"n": 1}}));
}

/// jsonapi.org, the example of its front page: a compound document.
const ARTICLES: &str = r#"{
    "links": {"self": "http://example.com/articles", "next": "http://example.com/articles?page[offset]=2"},
    "data": [{
        "type": "articles", "id": "1",
        "attributes": {"title": "JSON:API paints my bikeshed!"},
        "relationships": {
            "author": {"links": {"self": "http://example.com/articles/1/relationships/author",
                "related": "http://example.com/articles/1/author"}, "data": {"type": "people", "id": "9"}},
            "comments": {"links": {"self": "http://example.com/articles/1/relationships/comments",
                "related": "http://example.com/articles/1/comments"},
                "data": [{"type": "comments", "id": "5"}, {"type": "comments", "id": "12"}]}},
        "links": {"self": "http://example.com/articles/1"}
    }],
    "included": [{
        "type": "people", "id": "9",
        "attributes": {"firstName": "Dan", "lastName": "Gebhardt", "twitter": "dgeb"},
        "links": {"self": "http://example.com/people/9"}
    }, {
        "type": "comments", "id": "5", "attributes": {"body": "First!"},
        "relationships": {"author": {"data": {"type": "people", "id": "2"}}},
        "links": {"self": "http://example.com/comments/5"}
    }, {
        "type": "comments", "id": "12", "attributes": {"body": "I like XML better"},
        "relationships": {"author": {"data": {"type": "people", "id": "9"}}},
        "links": {"self": "http://example.com/comments/12"}
    }]
}"#;

#[test]
fn json_api_has_its_compound_documents_resolved() {
    let api = rules(Format::JsonApi);
    let dan = json!({"type": "people", "id": "9", "firstName": "Dan", "lastName": "Gebhardt", "twitter": "dgeb"});
    assert_eq!(
        plain(&api, ARTICLES),
        json!([{"type": "articles", "id": "1", "title": "JSON:API paints my bikeshed!", "author": dan, "comments": [
            {"type": "comments", "id": "5", "body": "First!", "author": {"type": "people", "id": "2"}},
            {"type": "comments", "id": "12", "body": "I like XML better", "author": dan}]}])
    );
    let flat = PlainRules { depth: Some(0), ..api.clone() };
    assert_eq!(
        plain(&flat, ARTICLES),
        json!([{"type": "articles", "id": "1", "title": "JSON:API paints my bikeshed!",
            "author": {"type": "people", "id": "9"},
            "comments": [{"type": "comments", "id": "5"}, {"type": "comments", "id": "12"}]}])
    );
    let linked = PlainRules { links: Some("_links".into()), depth: Some(1), ..api };
    let made = plain(&linked, ARTICLES);
    assert_eq!(
        made[0]["_links"],
        json!({"self": "http://example.com/articles/1", "author": "http://example.com/articles/1/author",
            "comments": "http://example.com/articles/1/comments"})
    );
    assert_eq!(made[0]["comments"][1]["author"], json!({"type": "people", "id": "9"}));
}

#[test]
fn json_api_has_single_resources_null_and_linkage() {
    let api = rules(Format::JsonApi);
    for (document, wanted) in [
        // Section 7.1 and 5.2 of the specification: a resource, none, an identifier, empty linkage.
        (
            r#"{"data":{"type":"articles","id":"1","attributes":{"title":"t"},"relationships":{"author":{"links":{"related":"/a"}}}}}"#,
            json!({"type": "articles", "id": "1", "title": "t"}),
        ),
        (r#"{"data":null,"links":{"self":"/articles/1/author"}}"#, json!(null)),
        (r#"{"data":[]}"#, json!([])),
        (r#"{"meta":{"copyright":"2015"},"jsonapi":{"version":"1.1"}}"#, json!(null)),
        (r#"{"data":[{"type":"people","id":"9","meta":{"n":1}}]}"#, json!([{"type": "people", "id": "9"}])),
        (
            r#"{"data":{"type":"a","id":"1","relationships":{"none":{"data":null},"few":{"data":[]},"meta":{"meta":{}}}}}"#,
            json!({"type": "a", "id": "1", "none": null, "few": []}),
        ),
        // A cycle ends where it began, and what is primary data is resolved too.
        (
            r#"{"data":[{"type":"a","id":"1","relationships":{"next":{"data":{"type":"a","id":"2"}}}},
                     {"type":"a","id":"2","relationships":{"next":{"data":{"type":"a","id":"1"}}}}]}"#,
            json!([{"type": "a", "id": "1", "next": {"type": "a", "id": "2", "next": {"type": "a", "id": "1"}}},
                   {"type": "a", "id": "2", "next": {"type": "a", "id": "1", "next": {"type": "a", "id": "2"}}}]),
        ),
        // Included before the data, and the data one resource.
        (
            r#"{"included":[{"type":"p","id":"1","attributes":{"n":1.10}}],"data":{"type":"a","id":"1","relationships":{"p":{"data":{"type":"p","id":"1"}}}}}"#,
            json!({"type": "a", "id": "1", "p": {"type": "p", "id": "1", "n": 1.10}}),
        ),
        (
            r#"{"type":"a","id":"1","relationships":{"p":{"data":{"type":"p","id":"2"}}},"p":{"data":{"type":"p","id":"2","attributes":{"n":3}}}}"#,
            json!({"type": "a", "id": "1", "p": {"type": "p", "id": "2", "n": 3}}),
        ),
        // An item that `each` took out, with a document that `follow` put into it.
        (
            r#"{"type":"a","id":"1","attributes":{"t":1},"author":{"data":{"type":"p","id":"2","attributes":{"n":3}}},"more":[{"data":null},{"x":1}]}"#,
            json!({"type": "a", "id": "1", "t": 1, "author": {"type": "p", "id": "2", "n": 3}, "more": [null, {"x": 1}]}),
        ),
    ] {
        assert_eq!(plain(&api, document), wanted, "{document}");
    }
    for foreign in [r#"{"a":1}"#, r#"{"errors":[{"status":"404"}]}"#, r#"[{"a":1}]"#] {
        assert_eq!(whole(&api, foreign).expect_err("foreign").kind(), Kind::Unusable, "{foreign}");
        assert_eq!(streamed(&api, foreign, 3).expect_err("foreign").kind(), Kind::Unusable, "{foreign}");
    }
}

/// The example of Siren's own page.
const ORDER: &str = r#"{
    "class": [ "order" ],
    "properties": { "orderNumber": 42, "itemCount": 3, "status": "pending" },
    "entities": [
        { "class": [ "items", "collection" ], "rel": [ "http://x.io/rels/order-items" ],
          "href": "http://api.x.io/orders/42/items" },
        { "class": [ "info", "customer" ], "rel": [ "http://x.io/rels/customer" ],
          "properties": { "customerId": "pj123", "name": "Peter Joseph" },
          "links": [ { "rel": [ "self" ], "href": "http://api.x.io/customers/pj123" } ] }
    ],
    "actions": [ { "name": "add-item", "title": "Add Item", "method": "POST", "href": "http://api.x.io/orders/42/items",
        "type": "application/x-www-form-urlencoded", "fields": [ { "name": "orderNumber", "type": "hidden", "value": "42" } ] } ],
    "links": [ { "rel": [ "self" ], "href": "http://api.x.io/orders/42" },
        { "rel": [ "previous" ], "href": "http://api.x.io/orders/41" } ]
}"#;

#[test]
fn siren_has_its_properties_and_sub_entities() {
    let siren = rules(Format::Siren);
    assert_eq!(
        plain(&siren, ORDER),
        json!({"orderNumber": 42, "itemCount": 3, "status": "pending",
            "customer": {"customerId": "pj123", "name": "Peter Joseph"}})
    );
    let linked = PlainRules { links: Some("links".into()), ..siren.clone() };
    let made = plain(&linked, ORDER);
    assert_eq!(
        made["links"],
        json!({"order-items": "http://api.x.io/orders/42/items", "self": "http://api.x.io/orders/42",
            "previous": "http://api.x.io/orders/41"})
    );
    assert_eq!(made["customer"]["links"], json!({"self": "http://api.x.io/customers/pj123"}));
    for (document, wanted) in [
        (
            r#"{"class":["list"],"properties":{"n":1},"entities":[{"rel":["item"],"properties":{"a":1}}]}"#,
            json!({"n": 1, "item": [{"a": 1}]}),
        ),
        (
            r#"{"entities":[{"rel":["item"],"properties":{"a":1}},{"rel":["owner"],"properties":{"b":1}},{"rel":["item"],"properties":{"a":2}}],"properties":{"n":1}}"#,
            json!({"n": 1, "item": [{"a": 1}, {"a": 2}], "owner": {"b": 1}}),
        ),
        (
            r#"{"properties":{"owner":7},"entities":[{"rel":["owner"],"properties":{"b":1}}],"put":{"properties":{"c":1}},"also":3}"#,
            json!({"owner": 7, "put": {"c": 1}, "also": 3}),
        ),
        (r#"{"class":["empty"]}"#, json!({})),
        (r#"{"entities":[]}"#, json!({})),
    ] {
        assert_eq!(plain(&siren, document), wanted, "{document}");
    }
    let flat = PlainRules { depth: Some(0), ..siren };
    assert_eq!(plain(&flat, ORDER), json!({"orderNumber": 42, "itemCount": 3, "status": "pending"}));
}

/// Collection+JSON's own page, section 2.2, shortened to two items.
const FRIENDS: &str = r#"{ "collection" : {
    "version" : "1.0", "href" : "http://example.org/friends/",
    "links" : [ {"rel" : "feed", "href" : "http://example.org/friends/rss"} ],
    "items" : [
        { "href" : "http://example.org/friends/jdoe",
          "data" : [ {"name" : "full-name", "value" : "J. Doe", "prompt" : "Full Name"},
                     {"name" : "email", "value" : "jdoe@example.org", "prompt" : "Email"} ],
          "links" : [ {"rel" : "blog", "href" : "http://examples.org/blogs/jdoe", "prompt" : "Blog"},
                      {"rel" : "avatar", "href" : "http://examples.org/images/jdoe", "prompt" : "Avatar", "render" : "image"} ] },
        { "href" : "http://example.org/friends/msmith",
          "data" : [ {"name" : "full-name", "value" : "M. Smith"}, {"name" : "age"}, {"name" : "tags", "array" : ["a"]} ] }
    ],
    "queries" : [ {"rel" : "search", "href" : "http://example.org/friends/search", "prompt" : "Search",
        "data" : [ {"name" : "search", "value" : ""} ]} ],
    "template" : { "data" : [ {"name" : "full-name", "value" : "", "prompt" : "Full Name"} ] }
} }"#;

#[test]
fn collection_json_has_objects_of_its_data() {
    let collection = rules(Format::CollectionJson);
    assert_eq!(
        plain(&collection, FRIENDS),
        json!([{"full-name": "J. Doe", "email": "jdoe@example.org"}, {"full-name": "M. Smith", "age": null, "tags": ["a"]}])
    );
    let linked = PlainRules { links: Some("links".into()), ..collection.clone() };
    assert_eq!(
        plain(&linked, FRIENDS)[0]["links"],
        json!({"self": "http://example.org/friends/jdoe", "blog": "http://examples.org/blogs/jdoe",
            "avatar": "http://examples.org/images/jdoe"})
    );
    // Section 2.1: a minimal representation.
    assert_eq!(
        plain(&collection, r#"{"collection":{"version":"1.0","href":"http://example.org/friends/"}}"#),
        json!([])
    );
    assert_eq!(
        whole(&collection, r#"{"href":"/1","data":[{"name":"a","value":1}],"put":{"collection":{"items":[]}}}"#)
            .expect("item"),
        json!({"a": 1, "put": []})
    );
    assert!(whole(&collection, r#"{"a":1}"#).is_err() && streamed(&collection, r#"{"a":1}"#, 2).is_err());
}

#[test]
fn odata_has_its_properties() {
    let odata = rules(Format::Odata);
    for (document, wanted) in [
        // OData JSON Format 4.01, 4.5 and 13: a collection of entities, with count and next link.
        (
            r#"{"@odata.context":"http://host/service/$metadata#Customers","@odata.count":37,
             "value":[{"@odata.id":"Customers('ALFKI')","@odata.etag":"W/\"1\"","ID":"ALFKI","CompanyName":"Alfreds Futterkiste",
                "Orders@odata.navigationLink":"Customers('ALFKI')/Orders","Address":{"City":"Berlin","@odata.type":"x"}},
                {"ID":"ANATR"}],
             "@odata.nextLink":"http://host/service/Customers?$skiptoken=342r89"}"#,
            json!([{"ID": "ALFKI", "CompanyName": "Alfreds Futterkiste", "Address": {"City": "Berlin"}}, {"ID": "ANATR"}]),
        ),
        // An entity, with expanded ones.
        (
            r#"{"@context":"http://host/service/$metadata#Customers/$entity","ID":"ALFKI","Orders@count":42,
             "Orders":[{"@id":"Orders(1)","ID":1.10,"Email":"a@b"}],"Orders@nextLink":"x","value":[1]}"#,
            json!({"ID": "ALFKI", "Orders": [{"ID": 1.10, "Email": "a@b"}], "value": [1]}),
        ),
        // A single property, a collection of values, null.
        (r#"{"@odata.context":"http://host/service/$metadata#Customers('A')/Name","value":"x"}"#, json!("x")),
        (r#"{"@odata.context":"c","value":["small","medium"]}"#, json!(["small", "medium"])),
        (
            r#"{"@odata.context":"http://host/service/$metadata#C/$entity","value":[{"a@b":1,"c":2}]}"#,
            json!({"value": [{"c": 2}]}),
        ),
        // Version 2, as SAP Gateway sends it.
        (
            r#"{"d":{"results":[{"__metadata":{"uri":"/P(1)","type":"P"},"ID":1,"Supplier":{"__deferred":{"uri":"/P(1)/Supplier"}},
             "Items":{"results":[{"__metadata":{"uri":"/I(1)"},"n":1}]}}],"__count":"1"}}"#,
            json!([{"ID": 1, "Items": [{"n": 1}]}]),
        ),
        (r#"{"d":{"__count":"1","results":[{"ID":1}],"__next":"/P?$skip=1"}}"#, json!([{"ID": 1}])),
        (r#"{"d":[{"__metadata":{},"ID":1}]}"#, json!([{"ID": 1}])),
        (r#"{"d":{"__metadata":{"uri":"/P(1)"},"ID":1}}"#, json!({"ID": 1})),
        (r#"{"value":[]}"#, json!([])),
    ] {
        assert_eq!(plain(&odata, document), wanted, "{document}");
    }
    let linked = PlainRules { links: Some("links".into()), ..odata };
    assert_eq!(
        plain(
            &linked,
            r#"{"@odata.id":"C(1)","@odata.editLink":"C(1)/e","Orders@odata.navigationLink":"C(1)/Orders","ID":1}"#
        ),
        json!({"ID": 1, "links": {"self": "C(1)", "edit": "C(1)/e", "Orders": "C(1)/Orders"}})
    );
}

#[test]
fn json_ld_has_its_nodes() {
    let ld = rules(Format::JsonLd);
    for (document, wanted) in [
        // JSON-LD 1.1, examples 2, 5 and 16.
        (
            r#"{"@context":"https://json-ld.org/contexts/person.jsonld","@id":"http://dbpedia.org/resource/John_Lennon",
             "name":"John Lennon","born":"1940-10-09","spouse":"http://dbpedia.org/resource/Cynthia_Lennon"}"#,
            json!({"id": "http://dbpedia.org/resource/John_Lennon", "name": "John Lennon", "born": "1940-10-09",
                "spouse": "http://dbpedia.org/resource/Cynthia_Lennon"}),
        ),
        (
            r#"{"@context":{},"@type":"Person","name":{"@value":"Manu","@language":"en"},"homepage":{"@id":"http://manu.sporny.org/"},
             "nick":{"@list":["joe",{"@value":"bob"}]}}"#,
            json!({"type": "Person", "name": "Manu", "homepage": "http://manu.sporny.org/", "nick": ["joe", "bob"]}),
        ),
        (
            r#"{"@context":{},"@graph":[{"@id":"/m","@type":"Person","name":"Manu","knows":{"@id":"/g"}},{"@id":"/g","name":"Gregg","knows":{"@id":"/m"}}]}"#,
            json!([{"id": "/m", "type": "Person", "name": "Manu", "knows": {"id": "/g", "name": "Gregg", "knows": "/m"}},
                {"id": "/g", "name": "Gregg", "knows": {"id": "/m", "type": "Person", "name": "Manu", "knows": "/g"}}]),
        ),
        // Hydra Core, example 10, and as API Platform 4 sends it.
        (
            r#"{"@context":"http://www.w3.org/ns/hydra/context.jsonld","@id":"http://api.example.com/an-issue/comments","@type":"Collection",
             "totalItems":4980,"member":[{"@id":"/comments/429","id":429,"title":"x","operation":[{"@type":"Operation","method":"DELETE"}]}],
             "view":{"@id":"/comments?page=3","@type":"PartialCollectionView","next":"/comments?page=4"}}"#,
            json!([{"id": 429, "title": "x"}]),
        ),
        (
            r#"{"@context":"/contexts/Book","@id":"/books","@type":"hydra:Collection","hydra:totalItems":1,
             "hydra:member":[{"@id":"/books/1","@type":"Book","author":{"@id":"/authors/1","@type":"Author","name":"A"},"reviews":["/reviews/1"]}],
             "hydra:view":{"@id":"/books?page=1"}}"#,
            json!([{"id": "/books/1", "type": "Book", "author": {"id": "/authors/1", "type": "Author", "name": "A"},
                "reviews": ["/reviews/1"]}]),
        ),
        (r#"{"@context":{},"@id":"/x","member":["a"]}"#, json!({"id": "/x", "member": ["a"]})),
    ] {
        assert_eq!(plain(&ld, document), wanted, "{document}");
    }
}

#[test]
fn feeds_have_their_entries() {
    let atom = PlainRules { links: Some("links".into()), ..rules(Format::Atom) };
    // RFC 4287, section 1.1, as XML is read to JSON; and an RSS item.
    let feed = r##"{"feed":{"@xmlns":"http://www.w3.org/2005/Atom","title":"Example Feed","link":{"@href":"http://example.org/"},
        "updated":"2003-12-13T18:30:02Z","author":{"name":"John Doe"},"id":"urn:uuid:60a76c80","entry":{"title":{"@type":"text","#text":"Atom-Powered Robots Run Amok"},
        "link":[{"@href":"http://example.org/2003/12/13/atom03"},{"@rel":"edit","@href":"/e"}],"id":"urn:uuid:1225c695","updated":"2003-12-13T18:30:02Z",
        "category":{"@term":"robots"},"content":{"@src":"/x","@type":"video/mp4"},"summary":"Some text."}}}"##;
    assert_eq!(
        plain(&atom, feed),
        json!([{"title": "Atom-Powered Robots Run Amok", "id": "urn:uuid:1225c695", "updated": "2003-12-13T18:30:02Z",
            "category": ["robots"], "content": {"src": "/x", "type": "video/mp4"}, "summary": "Some text.",
            "links": {"alternate": "http://example.org/2003/12/13/atom03", "edit": "/e"}}])
    );
    let rss = r##"{"rss":{"@version":"2.0","channel":{"title":"T","item":[{"title":"a","link":"http://x/a","guid":{"@isPermaLink":"false","#text":"1"},
        "category":["x",{"@domain":"d","#text":"y"}]},{"title":"b"}]}}}"##;
    assert_eq!(
        plain(&rules(Format::Atom), rss),
        json!([{"title": "a", "guid": "1", "category": ["x", "y"]}, {"title": "b"}])
    );
    assert_eq!(plain(&rules(Format::Atom), r#"{"feed":""}"#), json!([]));
    assert!(whole(&rules(Format::Atom), r#"{"html":{}}"#).is_err());
}

#[test]
fn a_format_is_known_by_its_media_type_or_its_shape() {
    for (media, format) in [
        ("application/hal+json;charset=utf-8", Some(Format::Hal)),
        ("application/prs.hal-forms+json", Some(Format::Hal)),
        ("Application/Vnd.Api+Json", Some(Format::JsonApi)),
        ("application/json;odata.metadata=minimal;charset=utf-8", Some(Format::Odata)),
        ("application/json; odata=verbose", Some(Format::Odata)),
        ("application/atom+xml; type=feed", Some(Format::Atom)),
        ("application/json", None),
        ("text/html", None),
    ] {
        assert_eq!(Format::of_media(media.as_bytes()), format, "{media}");
    }
    for (document, format) in [
        (HAL_ORDERS, Some(Format::Hal)),
        (ARTICLES, Some(Format::JsonApi)),
        (ORDER, Some(Format::Siren)),
        (FRIENDS, Some(Format::CollectionJson)),
        (r#"{"@odata.context":"x","value":[]}"#, Some(Format::Odata)),
        (r#"{"d":{"results":[]}}"#, Some(Format::Odata)),
        (r#"{"@context":"x","@id":"y"}"#, Some(Format::JsonLd)),
        (r#"{"rss":{"channel":{}}}"#, Some(Format::Atom)),
        (r#"[{"type":"a","id":"1","attributes":{}}]"#, Some(Format::JsonApi)),
        (r#"{"data":[{"id":1}],"links":{}}"#, None),
        (r#"{"value":[1],"d":2,"feed":3,"x":1}"#, None),
        ("[]", None),
    ] {
        assert_eq!(Format::of_shape(&raw(document)), format, "{document}");
    }
}

#[test]
fn what_is_resolved_is_bounded() {
    // All name all: paths without a cycle are as many as 40 to the power of the depth.
    let all: Vec<Value> = (0..40).map(|id| json!({"type": "a", "id": id.to_string()})).collect();
    let resource = |id: usize| json!({"type": "a", "id": id.to_string(), "attributes": {"x": "x".repeat(100)}, "relationships": {"all": {"data": all}}});
    let document = json!({"data": (0..40).map(resource).collect::<Vec<_>>()}).to_string();
    let deep = PlainRules { depth: Some(50), bound: 1 << 18, ..rules(Format::JsonApi) };
    assert_eq!(whole(&deep, &document).expect_err("too large").kind(), Kind::Oversized);
    assert_eq!(streamed(&deep, &document, 4096).expect_err("too large").kind(), Kind::Oversized);
    // One large resource that each item names.
    let items: Vec<Value> = (0..2000)
        .map(
            |id| json!({"type": "a", "id": id.to_string(), "relationships": {"p": {"data": {"type": "p", "id": "1"}}}}),
        )
        .collect();
    let large = json!({"type": "p", "id": "1", "attributes": {"x": "x".repeat(30_000)}});
    let document = json!({"data": items, "included": [large]}).to_string();
    let api = PlainRules { bound: 1 << 16, ..rules(Format::JsonApi) };
    assert_eq!(whole(&api, &document).expect_err("too large").kind(), Kind::Oversized);
    assert_eq!(streamed(&api, &document, 4096).expect_err("too large").kind(), Kind::Oversized);
    // More than the bound is not held.
    let api = rules(Format::JsonApi);
    let many: Vec<Value> = (0..20_000).map(|id| json!({"type": "p", "id": id.to_string()})).collect();
    let document = json!({"included": many, "data": []}).to_string();
    assert_eq!(streamed(&api, &document, 4096).expect_err("too large").kind(), Kind::Oversized);
    assert_eq!(streamed(&PlainRules { depth: Some(0), ..api }, &document, 4096).expect("skipped"), "[]");
    // Parts as deep as JSON may be.
    let deep = format!("{}{}", r#"{"_embedded":{"a":"#.repeat(60), "1".to_owned() + &"}}".repeat(60));
    let made = plain(&rules(Format::Hal), &deep);
    assert_eq!(made.to_string().matches('{').count(), 60);
}

/// The test takes minutes if each byte makes the reader begin again.
#[test]
fn a_long_text_in_pieces_of_a_byte_is_read_once() {
    let long = "x".repeat(200_000);
    for (format, document) in [
        (Format::JsonApi, format!(r#"{{"data":[{{"type":"a","id":"1","attributes":{{"x":"{long}"}}}}]}}"#)),
        (Format::JsonApi, format!(r#"{{"{long}":1,"included":[{{"type":"a","id":"{long}"}}],"data":[]}}"#)),
        (
            Format::Hal,
            format!(r#"{{"_embedded":{{"a":[{{"b":"{long}"}}]}},"_links":{{"self":{{"href":"/{long}"}}}}}}"#),
        ),
        (Format::Siren, format!(r#"{{"entities":[{{"properties":{{"a":"{long}"}}}}]}}"#)),
        (Format::Odata, format!(r#"{{"@odata.context":"{long}","value":[{{"a":"{long}"}}]}}"#)),
        (Format::JsonLd, format!(r#"{{"@graph":[{{"@id":"{long}"}}]}}"#)),
    ] {
        let wanted = streamed(&rules(format), &document, document.len()).expect("one piece");
        assert_eq!(streamed(&rules(format), &document, 1).expect("pieces"), wanted);
    }
}

/// `cargo test --release -p crocodile-pear --lib -- --ignored --nocapture plain_beside_transform`
#[test]
#[ignore = "it measures, and asserts nothing"]
#[allow(clippy::print_stdout, reason = "that is what it is for")]
fn plain_beside_transform() {
    use std::time::Instant;

    use crate::jq::Filter;
    use crate::json::items::{Items, Path};

    let item = |id: usize| {
        format!(
            r#"{{"id":{id},"name":"an order of several words","state":"open","total":49.90,"address":{{"city":"Lund","zip":"22100"}},"_links":{{"self":{{"href":"http://shop.example/orders/{id}"}},"customer":{{"href":"http://shop.example/orders/{id}/customer"}}}}}}"#
        )
    };
    let items: Vec<String> = (0..200_000).map(item).collect();
    let document = Bytes::from(format!(r#"{{"_embedded":{{"orders":[{}]}},"_links":{{}}}}"#, items.join(",")));
    let pieces =
        || (0..document.len()).step_by(32 << 10).map(|at| document.slice(at..document.len().min(at + (32 << 10))));
    let told = |what: &str, since: Instant, made: usize| {
        let seconds = since.elapsed().as_secs_f64();
        println!("{what}: {:.0} MB/s, {made} bytes", document.len() as f64 / 1e6 / seconds);
    };
    let rules = Arc::new(rules(Format::Hal));
    let since = Instant::now();
    let (mut stream, mut out, mut made) = (PlainStream::new(rules.clone()), Vec::new(), 0);
    for piece in pieces() {
        stream.push(piece);
        while stream.write(32 << 10, &mut out).expect("sound") == WriteProgress::More {
            made += std::mem::take(&mut out).len();
        }
        made += std::mem::take(&mut out).len();
    }
    told("plain, as it arrives", since, made);
    let each = |mut take: Box<dyn FnMut(Bytes, u8) -> usize>| {
        let path = Arc::new(Path::parse("._embedded.orders[]").expect("a path"));
        let (mut items, mut made) = (Items::at(path, 1 << 20), 0);
        for piece in pieces() {
            items.push(piece);
            while let Some(item) = items.next().expect("sound") {
                made += take(item, items.depth().unwrap_or(9));
            }
        }
        made
    };
    let since = Instant::now();
    let plain = rules.clone();
    let made = each(Box::new(move |item, depth| {
        super::document(&plain, &Raw::sound(item, depth)).expect("plain").bytes().len()
    }));
    told("each, then plain", since, made);
    let since = Instant::now();
    let filter = Filter::compile("{id, name, state, total, address}", &[]).expect("compiles");
    let made = each(Box::new(move |item, depth| {
        let outputs = filter.apply(Raw::sound(item, depth).into(), &mut |_| crate::jq::null().into()).expect("fits");
        let mut out = Vec::new();
        outputs[0].write(&mut out).expect("written");
        out.len()
    }));
    told("each, then transform", since, made);
}

#[test]
fn each_name_is_found_at_once_however_many_there_are() {
    const COUNT: usize = 4_000;
    let many = |made: &dyn Fn(usize) -> String| (0..COUNT).map(made).collect::<Vec<_>>().join(",");
    let relationships =
        many(&|at| format!(r#""r{at}":{{"data":{{"type":"b","id":"{at}"}},"links":{{"related":"/x"}}}}"#));
    let attributes = many(&|at| format!(r#""a{at}":1"#));
    let data = many(&|at| format!(r#"{{"name":"r{at}","value":1}}"#));
    let entities = many(&|at| format!(r#"{{"rel":["r{at}"],"properties":{{"b":1}}}}"#));
    let links = many(&|at| format!(r#""l{at}":{{"href":"/x"}}"#));
    let embedded = many(&|at| format!(r#""r{at}":{{"b":1}}"#));
    let later = many(&|at| format!(r#""f{at}":{{}}"#));
    let documents = [
        (
            Format::JsonApi,
            format!(
                r#"{{"data":{{"type":"a","id":"1","attributes":{{{attributes}}},"relationships":{{{relationships}}}}}}}"#
            ),
        ),
        (Format::CollectionJson, format!(r#"{{"collection":{{"items":[{{"data":[{data}]}}]}}}}"#)),
        (Format::Siren, format!(r#"{{"properties":{{{attributes}}},"entities":[{entities}]}}"#)),
        (Format::Hal, format!(r#"[{{{attributes},"_links":{{{links}}},"_embedded":{{{embedded}}},{later}}}]"#)),
        (Format::JsonLd, format!(r#"{{"@id":"/x","@nest":{{{relationships}}},{attributes}}}"#)),
    ];
    for (format, document) in documents {
        let plain = PlainRules { links: Some("links".to_owned()), bound: 64 << 20, ..rules(format) };
        let made = whole(&plain, &document).expect("plain").to_string();
        assert_eq!(
            made.matches(&format!("\"r{}\":", COUNT - 1)).count(),
            if format == Format::JsonApi { 2 } else { 1 }
        );
    }
}
