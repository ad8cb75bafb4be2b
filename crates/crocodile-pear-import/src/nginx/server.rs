//! A server: its locations as endpoints.

use super::answer::{self, RewritePath, Rewritten};
use super::call::{self, Path};
use super::file::NginxFile;
use super::location::{self, Location, LocationMatch};
use super::parse::Directive;
use super::piece::{self, Piece, REST};
use super::regex::{self, RegexRoute};
use super::scope::Scope;
use super::settings::{self, EndpointDraft, LocationPhase};
use super::variable::Variables;
use super::{access, files, measure};
use crate::jq;
use crate::yaml::{Map, Yaml};

/// A server, with what it knows for its variables.
pub struct ServerContext<'a> {
    pub scope: Scope<'a>,
    pub names: Variables<'a>,
}

pub fn read<'a>(file: &NginxFile<'a>, server: &ServerContext<'a>) -> Vec<EndpointDraft> {
    let mut names = server.names.clone();
    let locations = location::all(&server.scope);
    file.locations.replace(locations.clone());
    let mut endpoints: Vec<EndpointDraft> = Vec::new();
    let root = route("/", false);
    for directive in server.scope.own() {
        match directive.name.as_str() {
            "set" => set(file, &mut names, directive),
            "return" => {
                let inner = Variables { path: root.pieces.clone(), request: root.pieces.clone(), ..names.clone() };
                let endpoint = given(file, &server.scope, &inner, directive, &root);
                for location in &locations {
                    file.ledger.ignore(location.directive, "nginx answers each request before it looks for a location");
                }
                endpoints.extend(endpoint);
                return endpoints;
            }
            "rewrite" => endpoints.extend(redirect(file, &server.scope, &names, directive)),
            _ => {}
        }
    }
    let taken = TakenPaths::new(&locations);
    for at in 0..locations.len() {
        let reader = LocationReader { file, locations: &locations, taken: &taken };
        for endpoint in reader.location(at, &names) {
            if endpoints.iter().any(|known| known.name == endpoint.name) {
                let why = format!("`{}` is served by another location of the file", endpoint.name);
                file.ledger.report(locations[at].directive, why, "put both into one");
                continue;
            }
            endpoints.push(endpoint);
        }
    }
    let has_root = server.scope.own().iter().any(|directive| matches!(directive.name.as_str(), "root" | "try_files"));
    if has_root && !locations.iter().any(|location| location.prefix() == Some("/")) {
        let reader = LocationReader { file, locations: &locations, taken: &taken };
        let names = Variables { path: root.pieces.clone(), request: root.pieces.clone(), ..names.clone() };
        endpoints.extend(reader.content(&server.scope, None, &root, names, true));
    }
    endpoints
}

/// `set`: a variable from here on.
fn set(file: &NginxFile<'_>, names: &mut Variables<'_>, directive: &Directive) {
    let (Some(name), Some(value)) = (directive.arg(0), directive.arg(1)) else { return };
    match names.resolve(value) {
        Ok(pieces) => {
            file.ledger.import(directive);
            names.known.insert(name.trim_start_matches('$').to_owned(), pieces);
        }
        Err(why) => file.ledger.report(directive, format!("the variable is not imported: {why}"), ""),
    }
}

/// A `rewrite` of the server itself: a redirect is an endpoint, and others are not imported.
fn redirect(
    file: &NginxFile<'_>,
    scope: &Scope<'_>,
    names: &Variables<'_>,
    directive: &Directive,
) -> Vec<EndpointDraft> {
    let paths = regex::paths(directive.arg(0).unwrap_or_default());
    let Ok(paths) = paths else {
        let why = "the regular expression cannot be written as a path";
        file.ledger.report(
            directive,
            format!("{why}: {}", paths.err().unwrap_or_default()),
            "write an endpoint for the paths",
        );
        return Vec::new();
    };
    let mut endpoints = Vec::new();
    for route in &paths.routes {
        let mut inner = Variables { path: route.pieces.clone(), request: route.pieces.clone(), ..names.clone() };
        inner.known.extend(route.captures.iter().cloned());
        let seen = RewritePath { prefix: &route.literal, is_exact: !route.has_rest, pieces: &route.pieces };
        match answer::rewrite(&mut inner, directive, &seen) {
            Ok(Rewritten::Redirect(pipeline)) if route.checks.is_empty() => {
                file.ledger.import(directive);
                let settings = settings::read(file, scope, &mut inner, LocationPhase::Rewrite);
                endpoints.push(answering(route, settings, pipeline));
            }
            _ => {
                let why = "a `rewrite` of the server that goes on with another path is not imported";
                file.ledger.report(directive, why, "write an endpoint with the old path that calls with the new one");
                return Vec::new();
            }
        }
    }
    endpoints
}

/// An endpoint that answers by itself.
fn answering(route: &RegexRoute, mut settings: Map, pipeline: Yaml) -> EndpointDraft {
    settings.set("body", Yaml::plain("ignore"));
    EndpointDraft {
        name: route.path.clone(),
        settings,
        body: Some(pipeline),
        phase: LocationPhase::Rewrite,
        is_silent: false,
        comment: None,
    }
}

/// The endpoint of a `return`.
fn given(
    file: &NginxFile<'_>,
    scope: &Scope<'_>,
    names: &Variables<'_>,
    directive: &Directive,
    route: &RegexRoute,
) -> Option<EndpointDraft> {
    let pipeline = answer::give(file, scope, names, directive, &route.literal)?;
    let settings = settings::read(file, scope, &mut names.clone(), LocationPhase::Rewrite);
    let mut endpoint = answering(route, settings, pipeline);
    endpoint.is_silent = file.is_silent(scope);
    endpoint.body = endpoint.body.map(|body| checked(route, body));
    Some(endpoint)
}

/// The pipeline with a step before it that refuses paths which the regular expression does not fit.
fn checked(route: &RegexRoute, body: Yaml) -> Yaml {
    if route.checks.is_empty() {
        return body;
    }
    let mut steps: Vec<Yaml> = Vec::new();
    for (name, regex) in &route.checks {
        let mut reject = Map::of("when", Yaml::text(format!("$path.{name} | test({}) | not", jq::text(regex))));
        reject.set("status", Yaml::plain(404));
        steps.push(Map::of("reject", reject).into());
    }
    match body {
        Yaml::List(more) => steps.extend(more),
        call => steps.push(Map::of("request", call).into()),
    }
    Yaml::List(steps)
}

/// Sets the patterns that paths must match, for a proxy that must not have a step before its call.
fn validated(route: &RegexRoute, settings: &mut Map) {
    let mut properties = Map::default();
    for (name, regex) in &route.checks {
        properties.set(name, Map::of("pattern", Yaml::text(regex)));
    }
    if !properties.is_empty() {
        settings.set("validate", Map::of("path", Map::of("properties", properties)));
    }
}

/// The path of a location without a regular expression.
pub fn route(path: &str, is_exact: bool) -> RegexRoute {
    let written = piece::escaped(path);
    let slash = !path.ends_with('/');
    let mut pieces = vec![Piece::Text(path.to_owned())];
    let path_text = match (is_exact, slash) {
        (true, _) => written,
        (false, true) => format!("{written}/{{*{REST}}}"),
        (false, false) => format!("{written}{{*{REST}}}"),
    };
    if !is_exact {
        pieces.push(Piece::Rest { slash });
    }
    RegexRoute {
        path: path_text,
        literal: path.to_owned(),
        has_rest: !is_exact,
        is_open: !is_exact && slash,
        captures: Vec::new(),
        checks: Vec::new(),
        pieces,
    }
}

/// The most bytes of a body that a location takes.
fn body_size(scope: &Scope<'_>) -> u64 {
    match scope.last("client_max_body_size") {
        None => 1 << 20,
        Some(directive) => match directive.arg(0).and_then(measure::size) {
            Some(0) | None => u64::MAX,
            Some(size) => size,
        },
    }
}

/// Which locations others take all requests from.
struct TakenPaths {
    /// The texts that regular expressions take everything below of.
    regexes: Vec<String>,
    /// The prefixes with `^~`.
    sticky: Vec<String>,
}

impl TakenPaths {
    fn new(locations: &[Location<'_>]) -> Self {
        let whole = |regex: &str| -> Vec<String> {
            let routes = regex::paths(regex).map(|paths| paths.routes).unwrap_or_default();
            let is_whole = |route: &RegexRoute| {
                let behind = route.path.strip_prefix(&piece::escaped(&route.literal));
                route.has_rest && matches!(behind, Some("{*path}" | "/{*path}"))
            };
            routes.into_iter().filter(is_whole).map(|route| route.literal).collect()
        };
        let mut taken = TakenPaths { regexes: Vec::new(), sticky: Vec::new() };
        for location in locations {
            match &location.kind {
                LocationMatch::Regex { regex, .. } => taken.regexes.extend(whole(regex)),
                LocationMatch::Prefix { path, sticky: true } => taken.sticky.push(path.clone()),
                _ => {}
            }
        }
        taken
    }
}

/// The path that a `rewrite` has made.
struct Changed {
    path: Vec<Piece>,
    has_query: bool,
    /// Whether some paths stay as they are.
    is_conditional: bool,
    /// The part behind the prefix of the location that was found for it; none if the location has stayed the same.
    behind: Option<Vec<Piece>>,
}

struct LocationReader<'r, 'a> {
    file: &'r NginxFile<'a>,
    locations: &'r [Location<'a>],
    taken: &'r TakenPaths,
}

impl<'a> LocationReader<'_, 'a> {
    fn location(&self, at: usize, names: &Variables<'a>) -> Vec<EndpointDraft> {
        let location = &self.locations[at];
        let ledger = self.file.ledger;
        let routes = match &location.kind {
            // Whoever goes there reads it.
            LocationMatch::Named(_) => return Vec::new(),
            LocationMatch::Exact(path) => vec![route(path, true)],
            LocationMatch::Prefix { path, sticky } => {
                if !*sticky && self.taken.regexes.iter().any(|text| path.starts_with(text.as_str())) {
                    ledger.ignore(location.directive, "a regular expression takes all requests of this location");
                    return Vec::new();
                }
                // `/api/` beside `/api`: only `/api` itself is left to the shorter one.
                let longer = format!("{path}/");
                let is_exact = self.locations.iter().any(|other| other.prefix() == Some(&longer));
                let mut route = route(path, is_exact);
                if is_exact {
                    route.pieces = vec![Piece::Text(path.clone())];
                }
                vec![route]
            }
            LocationMatch::Regex { regex, caseless } => match self.regex(location, regex, *caseless) {
                Some(routes) => routes,
                None => return Vec::new(),
            },
        };
        if routes.iter().any(|route| route.literal.contains([' ', '{', '}', '%', '?', '#']) && route.path.contains('%'))
        {
            let why = "a path with a space, a brace or a percent sign is not imported";
            ledger.report(location.directive, why, "write the endpoint with a parameter in this segment");
            return Vec::new();
        }
        ledger.import(location.directive);
        self.note_open(location, &routes);
        let mut endpoints: Vec<EndpointDraft> = Vec::new();
        for route in routes {
            for endpoint in self.endpoints(location, &route, names) {
                if !endpoints.iter().any(|known| known.name == endpoint.name) {
                    endpoints.push(endpoint);
                }
            }
        }
        endpoints
    }

    /// A location whose paths cannot be written, and that gives out none of the files that lie there.
    fn hidden(&self) -> Option<&'a Directive> {
        let hides = |location: &&Location<'_>| match &location.kind {
            LocationMatch::Regex { regex, .. } => regex::paths(regex).is_err() && location.hides_files(),
            _ => false,
        };
        self.locations.iter().find(hides).map(|location| location.directive)
    }

    /// The paths of a regular expression; none if it cannot be imported.
    fn regex(&self, location: &Location<'_>, regex: &str, caseless: bool) -> Option<Vec<RegexRoute>> {
        let ledger = self.file.ledger;
        let paths = match regex::paths(regex) {
            Ok(paths) => paths,
            Err(_) if location::runs_programs(&location.scope) => {
                let remedy = "run the program behind its own HTTP server, and name that as an upstream";
                ledger.report(location.directive, "its files are programs, which the gateway does not run", remedy);
                return None;
            }
            Err(why) => {
                let message = format!("the regular expression cannot be written as paths: {why}");
                let remedy = "write endpoints with `{word}` for one segment and `{*word}` for the rest";
                ledger.report(location.directive, message, remedy);
                return None;
            }
        };
        let stuck =
            |route: &RegexRoute| self.taken.sticky.iter().any(|prefix| route.literal.starts_with(prefix.as_str()));
        if paths.routes.iter().all(stuck) {
            ledger.ignore(location.directive, "a location with `^~` takes all requests of this one");
            return None;
        }
        if !paths.is_anchored {
            ledger.remark(
                location.directive,
                "here a path begins with this text; nginx also finds it further inside",
                "",
            );
        }
        if caseless {
            ledger.remark(location.directive, "paths are compared with regard to case", "");
        }
        for route in &paths.routes {
            let wider = self.locations.iter().any(|other| {
                other.prefix().is_some_and(|prefix| route.literal.starts_with(prefix))
                    || matches!(&other.kind, LocationMatch::Regex { regex: more, .. } if more != regex)
            });
            if !route.checks.is_empty() && wider {
                let message = format!(
                    "a path of `{}` that the regular expression does not fit gets 404; nginx looks for another location",
                    route.path
                );
                ledger.remark(location.directive, message, "");
            }
            let inside = |other: &&Location<'_>| {
                other
                    .prefix()
                    .is_some_and(|prefix| prefix.starts_with(&route.literal) && prefix.len() > route.literal.len())
                    && !matches!(&other.kind, LocationMatch::Prefix { sticky: true, .. })
            };
            let behind = route.path.strip_prefix(&piece::escaped(&route.literal)).unwrap_or_default();
            if let Some(other) =
                self.locations.iter().find(inside).filter(|_| !behind.starts_with("{*") && !behind.starts_with("/{*"))
            {
                let prefix = other.prefix().unwrap_or_default();
                let message =
                    format!("nginx asks this regular expression before `{prefix}`; here text comes before parameters");
                ledger.remark(location.directive, message, "");
            }
        }
        Some(paths.routes)
    }

    /// The first prefix that ends within a segment: nginx takes more paths.
    fn note_open(&self, location: &Location<'_>, routes: &[RegexRoute]) {
        let Some(route) = routes.iter().find(|route| route.is_open) else { return };
        if !self.file.told_open.replace(true) {
            let text = &route.literal;
            let message =
                format!("`{text}` is for `{text}` and paths below `{text}/`; nginx also serves `{text}x` here");
            self.file.ledger.remark(location.directive, message, "");
        }
    }

    /// Whether another location takes the requests of a path that has no endpoint.
    fn is_covered(&self, path: &str, location: &Location<'_>) -> bool {
        self.locations.iter().any(|other| {
            other.directive.number != location.directive.number
                && other.prefix().is_some_and(|prefix| path.starts_with(prefix))
        })
    }

    fn endpoints(&self, location: &Location<'a>, route: &RegexRoute, names: &Variables<'a>) -> Vec<EndpointDraft> {
        let file = self.file;
        let scope = &location.scope;
        let mut names = Variables { path: route.pieces.clone(), request: route.pieces.clone(), ..names.clone() };
        names.known.extend(route.captures.iter().cloned());
        let covered = self.is_covered(&route.literal, location);
        let base = names.clone();
        let status = |status: u16, comment: Option<String>| {
            let pipeline = answer::respond(status, Map::default(), None);
            let settings = settings::read(file, scope, &mut base.clone(), LocationPhase::Rewrite);
            EndpointDraft { comment, ..answering(route, settings, checked(route, pipeline)) }
        };
        if let Some(directive) = scope.own().iter().find(|directive| directive.name == "internal") {
            match scope.own().iter().any(|other| matches!(other.name.as_str(), "alias" | "root")) {
                true => file.ledger.remark(directive, "an answer with `X-Accel-Redirect` passes as it is", ""),
                false => file.ledger.import(directive),
            }
            return if covered { vec![status(404, None)] } else { Vec::new() };
        }
        let mut path = route.pieces.clone();
        let (mut is_rewritten, mut has_query, mut some) = (false, true, false);
        for directive in scope.own() {
            match directive.name.as_str() {
                "set" => set(file, &mut names, directive),
                "return" => {
                    let endpoint = given(file, scope, &names, directive, route).into_iter();
                    return endpoint.flat_map(|endpoint| self.limited(scope, endpoint, route, names.clone())).collect();
                }
                "break" => {
                    file.ledger.import(directive);
                    break;
                }
                "rewrite" => {
                    let seen = RewritePath { prefix: &route.literal, is_exact: !route.has_rest, pieces: &path };
                    match answer::rewrite(&mut names, directive, &seen) {
                        Ok(Rewritten::Redirect(pipeline)) => {
                            file.ledger.import(directive);
                            let settings = settings::read(file, scope, &mut names, LocationPhase::Rewrite);
                            let endpoint = answering(route, settings, checked(route, pipeline));
                            return self.limited(scope, endpoint, route, names);
                        }
                        Ok(Rewritten::On { path: new, has_query: keeps, is_last, is_conditional }) => {
                            some |= is_conditional;
                            file.ledger.import(directive);
                            names.path = new.clone();
                            (path, is_rewritten, has_query) = (new, true, has_query && keeps);
                            if is_last && directive.arg(2) == Some("last") {
                                return self.again(location, route, names, &path, has_query, directive);
                            }
                            if directive.arg(2) == Some("break") {
                                break;
                            }
                        }
                        Err(why) => {
                            file.ledger.report(directive, format!("the rewrite is not imported: {why}"), "");
                            return vec![status(501, Some("Its rewrite is not imported.".to_owned()))];
                        }
                    }
                }
                _ => {}
            }
        }
        if scope.is_closed() {
            scope.all(&["allow", "deny"]).iter().for_each(|rule| file.ledger.import(rule));
            return vec![status(403, None)];
        }
        let changed = is_rewritten.then_some(Changed { path, has_query, is_conditional: some, behind: None });
        let endpoints = self.content(scope, changed, route, names, false);
        if endpoints.is_empty() {
            return vec![status(501, Some("This location is not imported.".to_owned()))];
        }
        endpoints
    }

    /// The location that a `rewrite … last` leads to.
    fn again(
        &self,
        location: &Location<'a>,
        route: &RegexRoute,
        names: Variables<'a>,
        path: &[Piece],
        has_query: bool,
        directive: &Directive,
    ) -> Vec<EndpointDraft> {
        let is_conditional = matches!(path, [Piece::Jq(_)]);
        let mut changed = Changed { path: path.to_vec(), has_query, is_conditional, behind: None };
        let begin = match path.first() {
            Some(Piece::Text(text)) => text.split('?').next().unwrap_or_default(),
            _ => "",
        };
        let next = location::find(self.locations, begin, path.len() == 1);
        match next {
            Some(next) if next.directive.number != location.directive.number && !begin.is_empty() => {
                let own = next.scope.own().iter();
                if own.clone().any(|other| matches!(other.name.as_str(), "rewrite" | "return")) {
                    let why = "it leads to a location that rewrites or returns again";
                    self.file.ledger.report(directive, why, "write the endpoint with its last path");
                    return Vec::new();
                }
                let prefix = next.prefix().unwrap_or(begin);
                let mut behind = path.to_vec();
                if let Some(Piece::Text(text)) = behind.first_mut() {
                    *text = text.strip_prefix(prefix).unwrap_or_default().to_owned();
                }
                changed.behind = Some(piece::joined(behind));
                self.file.ledger.import(next.directive);
                let first = settings::read(self.file, &location.scope, &mut names.clone(), LocationPhase::Rewrite);
                let limited = names.clone();
                let mut endpoints = self.content(&next.scope, Some(changed), route, names, false);
                if let Some(limit) = location.scope.own().iter().find(|other| other.name == "limit_except") {
                    if !location.scope.within(limit.inner()).is_closed() {
                        let why = "in front of a rewrite to another location it is not imported";
                        self.file.ledger.report(limit, why, "write an endpoint for each method");
                        return Vec::new();
                    }
                    // There the rewrite does not hold for the methods that are refused.
                    let one = |endpoint| self.limited(&location.scope, endpoint, route, limited.clone());
                    endpoints = endpoints.into_iter().flat_map(one).collect();
                }
                // The body is measured where the request comes in.
                for endpoint in &mut endpoints {
                    first.get("max_body").into_iter().for_each(|size| {
                        endpoint.settings.set("max_body", size.clone());
                    });
                }
                endpoints
            }
            _ => self.content(&location.scope, Some(changed), route, names, false),
        }
    }

    /// The content of a location: a call, or files.
    fn content(
        &self,
        scope: &Scope<'a>,
        changed: Option<Changed>,
        route: &RegexRoute,
        mut names: Variables<'a>,
        is_server: bool,
    ) -> Vec<EndpointDraft> {
        let file = self.file;
        let pass = |scope: &Scope<'a>| {
            scope.own().iter().rfind(|directive| matches!(directive.name.as_str(), "proxy_pass" | "grpc_pass"))
        };
        let settings = settings::read(file, scope, &mut names, LocationPhase::Content);
        let (whole, has_query, is_rewritten) = match &changed {
            Some(changed) => (changed.path.clone(), changed.has_query, changed.behind.is_none()),
            None => (route.pieces.clone(), true, false),
        };
        let is_regex = !route.captures.is_empty()
            || route.pieces.first().is_none_or(|first| *first != Piece::Text(route.literal.clone()));
        let is_conditional = changed.as_ref().is_some_and(|changed| changed.is_conditional);
        let found = changed.and_then(|changed| changed.behind);
        let behind = match route.pieces.as_slice() {
            _ if found.is_some() => found,
            _ if is_regex => None,
            [Piece::Text(_), rest @ ..] => Some(rest.to_vec()),
            _ => None,
        };
        let path = Path { whole: &whole, behind, is_rewritten, has_query, is_conditional, is_subrequest: false };
        let mut endpoint = EndpointDraft {
            name: route.path.clone(),
            settings,
            body: None,
            phase: LocationPhase::Content,
            is_silent: file.is_silent(scope),
            comment: None,
        };
        if let Some(pass) = pass(scope).filter(|_| !is_server) {
            let Some(call) = call::read(file, scope, &names, pass, &path) else { return Vec::new() };
            if call.body.as_ref().is_some_and(|body| body != "client") {
                endpoint.settings.set("body", Yaml::plain("ignore"));
            }
            endpoint.body = Some(match call.upgrades && call.method.is_none() && call.body.is_none() {
                true => {
                    endpoint.settings.set("upgrade", Yaml::text("websocket"));
                    validated(route, &mut endpoint.settings);
                    call.write()
                }
                false => checked(route, call.write()),
            });
            return self.limited(scope, endpoint, route, names);
        }
        const OTHERS: [&str; 3] = ["memcached_pass", "stub_status", "empty_gif"];
        let other = |directive: &Directive| {
            OTHERS.contains(&directive.name.as_str()) || directive.name.contains("content_by_lua")
        };
        if location::runs_programs(scope) || scope.own().iter().any(other) {
            return Vec::new();
        }
        if is_rewritten {
            for directive in scope.own().iter().filter(|directive| directive.name == "rewrite") {
                file.ledger.report(directive, "the path that it makes is not looked up among files", "");
            }
            return Vec::new();
        }
        let outer = endpoint.settings.clone();
        let named = |name: &str| {
            let kind = LocationMatch::Named(name.to_owned());
            let location = self.locations.iter().find(|location| location.kind == kind)?;
            let pass = pass(&location.scope)?;
            let call = call::read(file, &location.scope, &names, pass, &path)?;
            file.ledger.import(location.directive);
            let mut settings = settings::read(file, &location.scope, &mut names.clone(), LocationPhase::Rewrite);
            self.both(location, (&outer, body_size(scope)), &names, &mut settings)?;
            Some((call, settings))
        };
        if !files::read(file, scope, route, &mut endpoint, (named, || self.hidden())) {
            return Vec::new();
        }
        match endpoint.body.is_some() {
            true => self.limited(scope, endpoint, route, names),
            false => vec![endpoint],
        }
    }

    /// Adds what a named location asks of a request to what the location asks that leads there: in nginx both hold, one after the
    /// other. None if both cannot be had.
    fn both(
        &self,
        named: &Location<'a>,
        (outer, size): (&Map, u64),
        names: &Variables<'a>,
        settings: &mut Map,
    ) -> Option<()> {
        let mut access = Map::default();
        access::read(self.file, &named.scope, &mut names.clone(), &mut access);
        for key in ["authenticate", "addresses"] {
            match (outer.get(key), access.get(key)) {
                (None, Some(value)) => {
                    settings.set(key, value.clone());
                }
                (Some(one), Some(other)) if one != other => {
                    let why = format!("the location that leads here has another `{key}`: in nginx both hold");
                    self.file.ledger.report(named.directive, why, "give both locations the same");
                    return None;
                }
                _ => {}
            }
        }
        if named.scope.is_closed() {
            self.file.ledger.report(named.directive, "nobody may call it", "leave it out");
            return None;
        }
        if size < body_size(&named.scope)
            && let Some(smaller) = outer.get("max_body")
        {
            settings.set("max_body", smaller.clone());
        }
        Some(())
    }

    /// `limit_except`: other methods than these are refused, or want a password.
    fn limited(
        &self,
        scope: &Scope<'a>,
        endpoint: EndpointDraft,
        route: &RegexRoute,
        mut names: Variables<'a>,
    ) -> Vec<EndpointDraft> {
        let Some(limit) = scope.own().iter().find(|directive| directive.name == "limit_except") else {
            return vec![endpoint];
        };
        let inner = scope.within(limit.inner());
        self.file.ledger.import(limit);
        let mut endpoints: Vec<EndpointDraft> = limit
            .texts()
            .map(|method| EndpointDraft {
                name: format!("{} {}", method.to_ascii_uppercase(), route.path),
                ..endpoint.clone()
            })
            .collect();
        if inner.is_closed() {
            limit.inner().iter().for_each(|directive| self.file.ledger.import(directive));
            return endpoints;
        }
        let mut rest = endpoint;
        let mut access = Map::default();
        access::read(self.file, &inner, &mut names, &mut access);
        access.iter().for_each(|(key, value)| {
            rest.settings.set(key, value.clone());
        });
        endpoints.push(rest);
        endpoints
    }
}
