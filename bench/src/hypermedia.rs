//! Tasks of hypermedia with servers that others wrote: the calls, bytes and time of a client that follows links itself, and those of one
//! request here. Django REST framework (also with JSON:API), json-server and Spring Data REST are started for real; where they are
//! missing, a line says so.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::Result;
use crate::client::Connection;
use crate::load::get;
use crate::process::{Folder, Process, free_address};
use crate::product;
use crate::report::{Sheet, Style, median, say};

/// Articles of Django, and posts of json-server.
const ITEMS: usize = 200;

/// Authors and users.
const PEOPLE: usize = 20;

#[derive(Args)]
pub struct Options {
    /// Rounds, of which the median is reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// A Python with Django, Django REST framework and its JSON:API
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// json-server 0.17
    #[arg(long, default_value = "json-server")]
    json_server: PathBuf,
    /// The shop with Spring Data REST, as `mvn package` makes it in bench/hypermedia/spring
    #[arg(long)]
    spring: Option<PathBuf>,
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// The requests of a client for a task.
#[derive(Default)]
struct Done {
    calls: u32,
    bytes: usize,
    milliseconds: f64,
    found: Value,
}

/// A client that follows links itself, on one kept connection.
struct Direct {
    connection: Connection,
    address: SocketAddr,
    done: Done,
}

impl Direct {
    async fn open(address: SocketAddr) -> Result<Self> {
        Ok(Direct { connection: Connection::open(address).await?, address, done: Done::default() })
    }

    async fn get(&mut self, link: &str) -> Result<Value> {
        let here = format!("http://{}", self.address);
        let target = link.strip_prefix(&here).unwrap_or(link);
        let answer = self.connection.exchange(&get(target, &self.address.to_string())).await?;
        if answer.status != 200 {
            return Err(format!("{target}: {}", answer.status).into());
        }
        self.done.calls += 1;
        self.done.bytes += answer.head + answer.framing + answer.body.len();
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// The same, and the address in its `Link` field with this relation.
    async fn linked(&mut self, target: &str, relation: &str) -> Result<(Value, Option<String>)> {
        let mut head = Vec::new();
        let answer = self.connection.ask(&get(target, &self.address.to_string()), &mut head).await?;
        self.done.calls += 1;
        self.done.bytes += answer.head + answer.framing + answer.body.len();
        let head = String::from_utf8_lossy(&head).into_owned();
        let field = head.lines().find_map(|line| line.strip_prefix("Link: ")).unwrap_or_default();
        let wanted = format!("rel=\"{relation}\"");
        let link = field.split(',').find(|link| link.contains(&wanted));
        let link = link.and_then(|link| Some(link.split_once('<')?.1.split_once('>')?.0.to_owned()));
        Ok((serde_json::from_slice(&answer.body)?, link))
    }

    /// The pages of a list, whose next one is at this place.
    async fn pages(&mut self, first: &str, next: &str) -> Result<Vec<Value>> {
        let (mut link, mut pages) = (first.to_owned(), Vec::new());
        loop {
            let page = self.get(&link).await?;
            let further = page.pointer(next).and_then(Value::as_str).map(str::to_owned);
            pages.push(page);
            match further {
                Some(next) => link = next,
                None => return Ok(pages),
            }
        }
    }
}

/// All items of pages.
fn items(pages: &[Value], at: &str) -> Vec<Value> {
    pages.iter().filter_map(|page| page.pointer(at)?.as_array()).flatten().cloned().collect()
}

/// The text at a place.
fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// A task: its endpoint, and how a client does it without.
#[derive(Clone, Copy)]
enum Task {
    Pages,
    Authors,
    Newest,
    Users,
    UsersTogether,
    LinkPages,
    Compound,
    Related,
    Customers,
    Tree,
}

impl Task {
    const DJANGO: [Self; 3] = [Self::Pages, Self::Authors, Self::Newest];
    const JSON: [Self; 3] = [Self::Users, Self::UsersTogether, Self::LinkPages];
    const JSON_API: [Self; 2] = [Self::Compound, Self::Related];
    const SPRING: [Self; 2] = [Self::Customers, Self::Tree];

    fn name(self) -> &'static str {
        match self {
            Self::Pages => "Django: all pages, one field",
            Self::Authors => "Django: all articles with their authors",
            Self::Newest => "Django: one page with its authors",
            Self::Users => "json-server: posts with their users",
            Self::UsersTogether => "json-server: the same, users in one call",
            Self::LinkPages => "json-server: all pages by `Link` fields",
            Self::Compound => "JSON:API: compound documents as plain JSON, all pages",
            Self::Related => "JSON:API: articles with comments by links, all pages",
            Self::Customers => "Spring: all orders with their customers",
            Self::Tree => "Spring: a customer's orders, items and products",
        }
    }

    fn target(self) -> &'static str {
        match self {
            Self::Pages => "/pages",
            Self::Authors => "/authors",
            Self::Newest => "/newest",
            Self::Users => "/users",
            Self::UsersTogether => "/together",
            Self::LinkPages => "/linked",
            Self::Compound => "/compound",
            Self::Related => "/related",
            Self::Customers => "/customers",
            Self::Tree => "/tree",
        }
    }

    async fn by_hand(self, server: SocketAddr) -> Result<Done> {
        let begun = Instant::now();
        let mut client = Direct::open(server).await?;
        let found = match self {
            Self::Pages => {
                let pages = client.pages("/articles/", "/next").await?;
                items(&pages, "/results").iter().map(|item| item["title"].clone()).collect()
            }
            Self::Authors | Self::Newest => {
                let items = match self {
                    Self::Authors => items(&client.pages("/articles/", "/next").await?, "/results"),
                    _ => client.get("/articles/").await?["results"].as_array().cloned().unwrap_or_default(),
                };
                let mut known: BTreeMap<String, Value> = BTreeMap::new();
                let mut found = Vec::new();
                for item in items {
                    let link = item["author"].as_str().unwrap_or_default().to_owned();
                    if !known.contains_key(&link) {
                        let author = client.get(&link).await?;
                        known.insert(link.clone(), author["name"].clone());
                    }
                    found.push(json!({"title": item["title"], "author": known[&link]}));
                }
                Value::Array(found)
            }
            Self::Users | Self::UsersTogether => {
                let posts = client.get("/posts").await?;
                let mut known: BTreeMap<u64, Value> = BTreeMap::new();
                let ids: Vec<u64> =
                    posts.as_array().into_iter().flatten().filter_map(|post| post["userId"].as_u64()).collect();
                if let Self::UsersTogether = self {
                    let mut distinct = ids.clone();
                    distinct.sort_unstable();
                    distinct.dedup();
                    let query: Vec<String> = distinct.iter().map(|id| format!("id={id}")).collect();
                    let users = client.get(&format!("/users?{}", query.join("&"))).await?;
                    let named = users.as_array().into_iter().flatten();
                    known.extend(named.filter_map(|user| Some((user["id"].as_u64()?, user["name"].clone()))));
                } else {
                    for id in &ids {
                        if !known.contains_key(id) {
                            let user = client.get(&format!("/users/{id}")).await?;
                            known.insert(*id, user["name"].clone());
                        }
                    }
                }
                let posts = posts.as_array().into_iter().flatten().zip(&ids);
                posts.map(|(post, id)| json!({"title": post["title"], "user": known[id]})).collect()
            }
            Self::LinkPages => {
                let (mut target, mut found) = ("/posts?_page=1&_limit=20".to_owned(), Vec::new());
                loop {
                    let (page, next) = client.linked(&target, "next").await?;
                    found.extend(page.as_array().into_iter().flatten().map(|post| post["title"].clone()));
                    let Some(next) = next else { break Value::Array(found) };
                    target = next
                        .split_once("//")
                        .and_then(|(_, rest)| Some(rest[rest.find('/')?..].to_owned()))
                        .unwrap_or(next);
                }
            }
            Self::Compound => {
                let mut found = Vec::new();
                for page in client.pages("/articles?include=author", "/links/next").await? {
                    let key = |one: &Value| (text(one, "/type").to_owned(), text(one, "/id").to_owned());
                    let included = page["included"].as_array().cloned().unwrap_or_default();
                    let known: BTreeMap<_, _> = included.iter().map(|one| (key(one), one)).collect();
                    for article in page["data"].as_array().into_iter().flatten() {
                        let author = known.get(&key(&article["relationships"]["author"]["data"]));
                        let name = author.map(|author| author["attributes"]["name"].clone());
                        found.push(json!({"title": article["attributes"]["title"], "author": name}));
                    }
                }
                Value::Array(found)
            }
            Self::Related => {
                let pages = client.pages("/articles", "/links/next").await?;
                let mut found = Vec::new();
                for article in items(&pages, "/data") {
                    let comments = client.get(text(&article, "/relationships/comments/links/related")).await?;
                    let texts: Vec<Value> =
                        items(&[comments], "/data").iter().map(|one| one["attributes"]["text"].clone()).collect();
                    found.push(json!({"title": article["attributes"]["title"], "comments": texts}));
                }
                Value::Array(found)
            }
            Self::Customers => {
                let pages = client.pages("/orders?size=4", "/_links/next/href").await?;
                let mut found = Vec::new();
                for order in items(&pages, "/_embedded/orders") {
                    let customer = client.get(text(&order, "/_links/customer/href")).await?;
                    found.push(json!({"number": order["number"], "customer": customer["name"]}));
                }
                Value::Array(found)
            }
            Self::Tree => {
                let customer = client.get("/customers/1").await?;
                let orders = client.get(text(&customer, "/_links/orders/href")).await?;
                let mut found = Vec::new();
                for order in items(&[orders], "/_embedded/orders") {
                    let mut products = Vec::new();
                    let held = client.get(text(&order, "/_links/items/href")).await?;
                    for item in items(&[held], "/_embedded/orderItems") {
                        products.push(client.get(text(&item, "/_links/product/href")).await?["name"].clone());
                    }
                    found.push(json!({"number": order["number"], "products": products}));
                }
                Value::Array(found)
            }
        };
        Ok(Done { milliseconds: begun.elapsed().as_secs_f64() * 1e3, found, ..client.done })
    }

    async fn here(self, gateway: SocketAddr) -> Result<Done> {
        let begun = Instant::now();
        let mut client = Direct::open(gateway).await?;
        let found = client.get(self.target()).await?;
        Ok(Done { milliseconds: begun.elapsed().as_secs_f64() * 1e3, found, ..client.done })
    }
}

fn django(listen: SocketAddr, server: SocketAddr) -> String {
    format!(
        "\
listen: {listen}
upstreams:
  django: {{ url: 'http://{server}' }}
endpoints:
  GET /pages:
    pipeline:
      - request: django /articles/
      - follow: {{ next: .next }}
      - each: '.results[]'
      - transform: .title
      - concatenate: {{ as: json, body_only: true, order: request }}
  GET /authors:
    pipeline:
      - request: django /articles/
      - follow: {{ next: .next }}
      - each: '.results[]'
      - follow: {{ link: .author, as: author }}
      - transform: '{{title, author: .author.name}}'
      - concatenate: {{ as: json, body_only: true, order: request }}
  GET /newest:
    pipeline:
      - request: django /articles/
      - each: '.results[]'
      - follow: {{ link: .author, as: author }}
      - transform: '{{title, author: .author.name}}'
      - concatenate: {{ as: json, body_only: true, order: request }}
"
    )
}

fn json_server(listen: SocketAddr, server: SocketAddr) -> String {
    format!(
        "\
listen: {listen}
upstreams:
  api: {{ url: 'http://{server}' }}
endpoints:
  GET /users:
    pipeline:
      - request: api /posts
      - each: .[]
      - follow: {{ link: '\"/users/\\(.userId)\"', as: user }}
      - transform: '{{title, user: .user.name}}'
      - concatenate: {{ as: json, body_only: true, order: request }}
  GET /together:
    pipeline:
      - request: api /posts
      - each: .[]
      - follow: {{ link: .userId, as: user, request: {{ to: api, path: /users, batch: {{ repeat: id }} }} }}
      - transform: '{{title, user: .user.name}}'
      - concatenate: {{ as: json, body_only: true, order: request }}
  GET /linked:
    pipeline:
      - request: api /posts?_page=1&_limit=20
      - follow: {{ link_header: next, pages: 50 }}
      - each: .[]
      - transform: .title
      - concatenate: {{ as: json, body_only: true, order: request }}
"
    )
}

fn json_api(listen: SocketAddr, server: SocketAddr) -> String {
    format!(
        "\
listen: {listen}
upstreams:
  api: {{ url: 'http://{server}' }}
endpoints:
  GET /compound:
    pipeline:
      - request: api /articles?include=author
      - follow: {{ next: .links.next }}
      - plain: json_api
      - each: .[]
      - transform: '{{title, author: .author.name}}'
      - concatenate: {{ as: json, body_only: true, order: request }}
  GET /related:
    pipeline:
      - request: api /articles
      - follow: {{ next: .links.next }}
      - each: '.data[]'
      - follow: {{ json_api: comments, as: comments }}
      - transform: '{{title: .attributes.title, comments: [.comments.data[].attributes.text]}}'
      - concatenate: {{ as: json, body_only: true, order: request }}
"
    )
}

fn spring(listen: SocketAddr, server: SocketAddr) -> String {
    format!(
        "\
listen: {listen}
upstreams:
  shop: {{ url: 'http://{server}' }}
endpoints:
  GET /customers:
    pipeline:
      - request: shop /orders?size=4
      - follow: {{ next: ._links.next.href }}
      - each: '._embedded.orders[]?'
      - follow: {{ hal: customer, as: customer }}
      - transform: '{{number, customer: .customer.name}}'
      - concatenate: {{ as: json, body_only: true, order: request }}
  GET /tree:
    pipeline:
      - request: shop /customers/1
      - follow: {{ hal: [orders, items, product], limit: 20 }}
      - transform: '[.orders._embedded.orders[] | {{number, products: [.items._embedded.orderItems[].product.name]}}]'
"
    )
}

fn serve_django(python: &Path, module: &str, script: &str) -> Result<Option<Process>> {
    let has = Command::new(python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let (folder, address) = (Folder::new("django")?, free_address()?);
    folder.write("serving.py", include_str!("../hypermedia/serving.py"))?;
    folder.write("articles.py", include_str!("../hypermedia/articles.py"))?;
    let script = folder.write("server.py", script)?;
    let mut command = Command::new(python);
    command.arg(script).arg(address.port().to_string()).arg(folder.path()).arg(ITEMS.to_string());
    Process::start(command, address, folder).map(Some)
}

fn serve_json(program: &Path) -> Result<Option<Process>> {
    let has = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let (folder, address) = (Folder::new("json-server")?, free_address()?);
    let posts: Value =
        (1..=ITEMS).map(|id| json!({"id": id, "title": format!("Post {id}"), "userId": id % PEOPLE + 1})).collect();
    let users: Value = (1..=PEOPLE).map(|id| json!({"id": id, "name": format!("User {id}")})).collect();
    let file = folder.write("db.json", &json!({"posts": posts, "users": users}).to_string())?;
    let mut command = Command::new(program);
    command.args(["--quiet", "--host", "127.0.0.1", "--port", &address.port().to_string()]).arg(file);
    Process::start(command, address, folder).map(Some)
}

fn serve_spring(jar: Option<&Path>) -> Result<Option<Process>> {
    let has = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let Some(jar) = jar.filter(|_| has.is_ok_and(|status| status.success())) else { return Ok(None) };
    let (folder, address) = (Folder::new("spring")?, free_address()?);
    let mut command = Command::new("java");
    command.arg("-jar").arg(jar).arg(format!("--server.port={}", address.port())).arg("--server.address=127.0.0.1");
    Process::start(command, address, folder).map(Some)
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary.clone())?;
    let headings = ["task", "calls", "bytes", "ms", "calls here", "bytes here", "ms here"];
    let mut sheet = Sheet::new(1, headings);
    match serve_django(&options.python, "rest_framework", include_str!("../hypermedia/django_server.py"))? {
        None => say("skipped: Django REST framework is missing (pip install djangorestframework, then --python)")?,
        Some(server) => {
            let gateway = product::start(&binary, "hypermedia", |listen| django(listen, server.address))?;
            measure(&Task::DJANGO, &server, &gateway, &options, &mut sheet).await?;
        }
    }
    match serve_json(&options.json_server)? {
        None => say("skipped: json-server is missing (npm install json-server@0.17, then --json-server)")?,
        Some(server) => {
            let gateway = product::start(&binary, "hypermedia", |listen| json_server(listen, server.address))?;
            measure(&Task::JSON, &server, &gateway, &options, &mut sheet).await?;
        }
    }
    match serve_django(&options.python, "rest_framework_json_api", include_str!("../hypermedia/json_api_server.py"))? {
        None => say("skipped: JSON:API is missing (pip install djangorestframework-jsonapi, then --python)")?,
        Some(server) => {
            let gateway = product::start(&binary, "hypermedia", |listen| json_api(listen, server.address))?;
            measure(&Task::JSON_API, &server, &gateway, &options, &mut sheet).await?;
        }
    }
    match serve_spring(options.spring.as_deref())? {
        None => say("skipped: Spring Data REST is missing (mvn package in bench/hypermedia/spring, then --spring)")?,
        Some(server) => {
            let gateway = product::start(&binary, "hypermedia", |listen| spring(listen, server.address))?;
            measure(&Task::SPRING, &server, &gateway, &options, &mut sheet).await?;
        }
    }
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    say(
        "Left: a client on one kept connection that follows each link itself; right: one request. Both found the same.",
    )?;
    Ok(())
}

async fn measure(
    tasks: &[Task],
    server: &Process,
    gateway: &Process,
    options: &Options,
    sheet: &mut Sheet,
) -> Result<()> {
    for task in tasks {
        let (mut direct, mut here) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            direct.push(task.by_hand(server.address).await?);
            here.push(task.here(gateway.address).await?);
        }
        let (by_hand, one) = (&direct[0], &here[0]);
        if by_hand.found != one.found {
            return Err(format!("{}: the answers differ", task.name()).into());
        }
        let middle = |all: &[Done]| format!("{:.1}", median(all.iter().map(|done| done.milliseconds).collect()));
        sheet.add([
            task.name().to_owned(),
            by_hand.calls.to_string(),
            by_hand.bytes.to_string(),
            middle(&direct),
            one.calls.to_string(),
            one.bytes.to_string(),
            middle(&here),
        ]);
    }
    Ok(())
}
