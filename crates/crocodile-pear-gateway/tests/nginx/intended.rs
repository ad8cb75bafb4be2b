//! The differences that are intended, each with its reason. The page for those who come from nginx has the same list.

use super::Served;
use super::shapes::Shape;

/// Takes away what may differ; gives the reasons. What still differs behind it, may not.
pub fn settle(shape: &Shape, request: &str, theirs: &mut Served, ours: &mut Served) -> Vec<&'static str> {
    let mut reasons = Vec::new();
    let is_refused = matches!(ours.status, 404 | 405) && ours.calls.is_empty();
    let asks = shape.begins("service") || shape.has("user of the service");
    let path = request.split(' ').nth(1).and_then(|target| target.split('?').next()).unwrap_or_default();
    let to_slash = theirs.status == 301 && theirs.field("location").is_some_and(|to| to.ends_with('/'));
    if to_slash && !path.ends_with('/') && theirs.calls.is_empty() {
        *theirs = ours.clone();
        return vec!["`/api/{*path}` serves `/api` as well; nginx redirects to `/api/`"];
    }
    if shape.has("methods") && matches!(theirs.status, 403 | 413) && ours.status == 405 {
        ours.status = theirs.status;
        reasons.push("a method that no endpoint of the path has gets 405; nginx answers 403");
    }
    if shape.has("websocket idiom") && (theirs.status, ours.status) == (404, 422) {
        ours.status = 404;
        reasons.push("a path that the regular expression of a location with WebSocket does not fit gets 422");
    }
    let has_check =
        shape.begins("regex of digits") || shape.begins("regex without an end") || shape.begins("named captures");
    if has_check && theirs.status == 404 && matches!(ours.status, 401 | 403 | 404 | 413 | 429) {
        *theirs = ours.clone();
        return vec!["a path that the regular expression of a location does not fit meets its limits first"];
    }
    let is_split = ["nested", "location with more", "regex of alternatives", "rewrite to another location"];
    if shape.begins("rate")
        && is_split.iter().any(|name| shape.has(name))
        && (theirs.status == 429) != (ours.status == 429)
    {
        *theirs = ours.clone();
        return vec!["each endpoint counts for itself where not all have the limit; nginx counts a zone together"];
    }
    if shape.begins("upstream block") && ours.calls.len() == 2 && theirs.calls.len() == 1 && theirs.status >= 500 {
        ours.calls.truncate(1);
        reasons.push("a failed call is repeated once on another server");
    }
    if matches!(theirs.status, 401 | 403) && ours.status == 404 && ours.calls.is_empty() {
        *theirs = ours.clone();
        return vec!["a path that no location takes gets 404; nginx asks for the server's password first"];
    }
    let is_asked = ours.status == 404 && asks && ours.calls.len() == 1;
    if theirs.status == 404 && theirs.calls.is_empty() && (matches!(ours.status, 401 | 403) || is_asked) {
        *theirs = ours.clone();
        return vec!["a path that no location takes meets the service and the access that all locations share"];
    }
    let is_measured = shape.has("closed") || shape.has("methods") || shape.begins("body limit");
    if shape.begins("rate") && is_measured && (theirs.status == 429) != (ours.status == 429) {
        *theirs = ours.clone();
        return vec!["which of the requests that are refused anyway count for a rate limit"];
    }
    if shape.begins("files") && (theirs.status, ours.status) == (404, 405) && !request.starts_with("GET ") {
        *theirs = ours.clone();
        return vec!["files are read with GET and HEAD: other methods get 405, whether the file is there or not"];
    }
    if theirs.calls.len() == 2 && ours.calls.len() == 1 && asks && shape.has("single page") {
        theirs.calls.truncate(1);
        reasons.push("a service is asked once for a request; nginx asks again for the page that stands for another");
    }
    if shape.begins("prefix without") && path.starts_with("/api") {
        for (call, own) in theirs.calls.iter_mut().zip(&mut ours.calls) {
            for path in [&mut call.path, &mut own.path] {
                *path = path.replace("//", "/").trim_end_matches('/').to_owned();
            }
        }
        for served in [&mut *theirs, &mut *ours] {
            for (_, value) in served.fields.iter_mut().filter(|(name, _)| name == "location") {
                *value = value.replace("/api/?", "/api?");
            }
        }
        reasons.push(
            "where the prefix of a location ends without a slash, and the new path with one, a call has one slash",
        );
    }
    if shape.begins("cache-control") && shape.has("expires") {
        theirs.fields.retain(|(name, value)| name != "cache-control" || value == "no-store");
        reasons.push("an answer has one `cache-control`");
    }
    if shape.has("rewrite without query") && shape.has("parameter as a field") {
        drop_fields(ours, theirs, |name| name == "x-q");
        reasons.push("a `rewrite` that ends with `?` takes the query off the call, not `$arg_…`");
    }
    if shape.has("rewrite without query") && shape.has("redirects are mapped") && theirs.status == 302 {
        for served in [&mut *theirs, &mut *ours] {
            served.fields.retain(|(name, _)| name != "location");
        }
        reasons.push("a redirect to a path of the upstream to which no endpoint leads stays as it is");
    }
    if shape.has("user of the service") && shape.has("named fallback") {
        ours.calls.iter_mut().skip(1).for_each(|call| call.fields.retain(|(name, _)| name != "x-user"));
        reasons.push("what a service answers goes into each call of the request");
    }
    let is_packed = theirs.field("content-encoding").is_some() && ours.field("content-encoding").is_none();
    if shape.has("gzip") && is_packed && theirs.calls.is_empty() && (theirs.status, ours.status) == (200, 200) {
        theirs.fields.retain(|(name, _)| name != "content-encoding");
        theirs.body.clone_from(&ours.body);
        reasons.push("a text of `return` and a small file are not compressed");
    }
    if shape.has("cache") && shape.has("fixed path of a variable") && ours.calls.is_empty() && theirs.calls.len() == 1 {
        *theirs = ours.clone();
        return vec!["a cached answer is kept for the call that was made; nginx keeps one for each `proxy_cache_key`"];
    }
    if let (true, Some(call), Some(own)) = (asks, theirs.calls.first_mut(), ours.calls.first_mut()) {
        call.fields.clear();
        own.fields.clear();
        reasons.push(
            "a service that decides gets method, URL and address in fields of their own, and few of the client's",
        );
    }
    let is_own = |served: &Served| served.status >= 300 && served.calls.len() <= usize::from(asks);
    if theirs.status == ours.status && is_own(theirs) && is_own(ours) && theirs.body != ours.body {
        for served in [&mut *theirs, &mut *ours] {
            served.body.clear();
            served.fields.retain(|(name, _)| name != "content-type" && name != "content-encoding");
        }
        reasons
            .push("errors are problem documents or have no body, and redirects have none; nginx writes pages of HTML");
    }
    if theirs.status >= 400 {
        let before = ours.fields.len();
        ours.fields.retain(|(name, _)| theirs.field(name).is_some() || !name.starts_with("x-own"));
        if ours.fields.len() < before {
            reasons.push("a header field that is set is on errors as well; nginx puts it there with `always` only");
        }
    }
    if is_refused {
        let before = theirs.fields.len();
        let more = ours.fields.len();
        let (own, all) = (ours.fields.clone(), theirs.fields.clone());
        theirs.fields.retain(|field| own.contains(field));
        ours.fields.retain(|field| all.contains(field) || !field.0.starts_with("x-"));
        if theirs.fields.len() < before || ours.fields.len() < more {
            reasons.push("an answer to what no endpoint takes has the header fields of the group or the top level");
        }
    }
    if shape.begins("return") && (shape.has("single page") || shape.begins("files")) {
        for served in [&mut *theirs, &mut *ours] {
            served.fields.retain(|(name, _)| name != "content-type");
        }
        reasons.push("a text has the type of the location; nginx looks at the ending of the request as well");
    }
    if theirs.field("cache-control").is_none() {
        let before = ours.fields.len();
        ours.fields.retain(|field| *field != ("cache-control".to_owned(), "private".to_owned()));
        if ours.fields.len() < before {
            reasons.push("an answer that something of the client is a part of says `cache-control: private`");
        }
    }
    if shape.begins("forwarded") {
        let before = count(ours);
        drop_fields(ours, theirs, |name| name.starts_with("x-forwarded-"));
        if count(ours) < before {
            reasons.push("`x-forwarded-for`, `-proto` and `-host` go together");
        }
    }
    if shape.begins("prefix without") && (shape.begins("request as") || shape.begins("path as")) && path == "/api" {
        drop_fields(ours, theirs, |name| matches!(name, "x-uri" | "x-path"));
        drop_fields(theirs, ours, |name| matches!(name, "x-uri" | "x-path"));
        reasons.push("in a header field, the path `/api` of `/api/{*path}` is `/api/`");
    }
    if shape.has("no fields of the client") {
        let before = count(ours);
        drop_fields(ours, theirs, |name| name == "content-type");
        if count(ours) < before {
            reasons.push("a body keeps its content-type");
        }
    }
    if shape.begins("password") || shape.has("no password here") {
        let before = count(theirs);
        drop_fields(theirs, ours, |name| name == "authorization");
        if count(theirs) < before {
            reasons.push("a password that the gateway checks is not sent on");
        }
    }
    if shape.begins("files") || shape.has("single page") {
        let before = ours.fields.clone();
        ours.fields.retain(|(name, _)| name != "x-content-type-options");
        for (_, value) in &mut ours.fields {
            *value = value.replace("; charset=utf-8", "");
        }
        if ours.fields != before {
            reasons.push("files of text are UTF-8, and say `x-content-type-options: nosniff`");
        }
    }
    reasons
}

fn count(served: &Served) -> usize {
    served.calls.iter().map(|call| call.fields.len()).sum()
}

/// Takes fields off the calls of one that those of the other do not have.
fn drop_fields(one: &mut Served, other: &Served, is_meant: impl Fn(&str) -> bool) {
    for (call, same) in one.calls.iter_mut().zip(&other.calls) {
        call.fields.retain(|field| !is_meant(&field.0) || same.fields.contains(field));
    }
}
