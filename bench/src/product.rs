//! This product as a process: where its binary is, and what it is told. All configurations of the bench are here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{Folder, Process, free_address};

/// The binary that was named, or the one built beside the bench.
pub fn find(named: Option<PathBuf>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name("crocodile-pear"),
    };
    if path.is_file() {
        return Ok(path);
    }
    let how = "build it with: cargo build --profile dist -p crocodile-pear-gateway";
    Err(format!("there is no {}; {how}, or name one with --binary", path.display()).into())
}

/// Starts the gateway with these upstreams and endpoints.
pub fn start(binary: &Path, name: &str, told: impl FnOnce(SocketAddr) -> String) -> Result<Process> {
    let folder = Folder::new(name)?;
    let address = free_address()?;
    let file = folder.write("gateway.yaml", &told(address))?;
    let mut command = Command::new(binary);
    command.arg("run").arg(file).env("RUST_LOG", "warn");
    Process::start(command, address, folder).map_err(|error| format!("{}: {error}", binary.display()).into())
}

/// Starts the demo: the gateway before its example upstreams.
pub fn demo(binary: &Path) -> Result<Process> {
    let address = free_address()?;
    let mut command = Command::new(binary);
    command.args(["demo", "--listen", &address.to_string(), "--upstreams", "127.0.0.1:0"]).env("RUST_LOG", "warn");
    Process::start(command, address, Folder::new("demo")?)
        .map_err(|error| format!("{}: {error}", binary.display()).into())
}

/// The configuration for the table: a proxy, a merge of three, a concatenation of ten.
pub fn shapes(listen: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "\
listen: {listen}
upstreams:
  up: {{ url: 'http://{upstream}' }}
endpoints:
  GET /proxy: up /item
  GET /merge:
    pipeline:
      - requests: {{ a: 'up /item?n=1', b: 'up /item?n=2', c: 'up /item?n=3' }}
      - merge: '{{a: $a, b: $b, c: $c}}'
  GET /ten:
    pipeline:
      - request: {{ to: up, path: '/item?n={{.}}', for_each: '1,2,3,4,5,6,7,8,9,10' }}
      - concatenate: {{ as: json, body_only: true }}
"
    )
}

/// The inbox in ten lines, as in `examples/demo.yaml`.
pub fn inbox(listen: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "\
listen: {listen}
upstreams:
  streamflow: {{ url: 'http://{upstream}/streamflow/api' }}
endpoints:
  GET /inbox:
    pipeline:
      - request: streamflow /cases/inbox
      - each: {{ in: '.cases[]', limit: 500 }}
      - follow: {{ link: .href, as: case }}
      - follow: {{ link: '.case.resources[] | select(.rel == \"general\").href', as: general }}
      - follow: {{ link: .general.priority.href, as: levels }}
      - transform: '{{id, text, due: .general.dueOn[:10], note: .general.note,
                     priority: (.general.priority.id as $p | [.levels.priorities[]? | select(.id == $p).text][0])}}'
      - concatenate: {{ as: json, body_only: true, order: arrival }}
"
    )
}

/// The configuration for `calls`: one call, several, and the ways to treat the hundred items of a list.
pub fn calls(listen: SocketAddr, upstream: SocketAddr) -> String {
    let list = |name: &str, steps: &str| {
        let end = "{concatenate: {as: json, body_only: true}}";
        format!("  GET /{name}: {{ pipeline: [ {{request: up /list}}, {{each: '.items[]'}}, {steps}{end} ] }}\n")
    };
    let follow = "{follow: {link: .href, as: d}}, ";
    let lists = [
        list("each", ""),
        list("transformed", "{transform: '{id, name}'}, "),
        list("called", "{request: {to: up, path: '/d/{.id}'}}, "),
        list("embedded", follow),
        list("flat", &format!("{follow}{{transform: '{{id, name, text: .d.text}}'}}, ")),
        list("nested", &format!("{follow}{{transform: '{{id, name, d: {{text: .d.text, value: .d.value}}}}'}}, ")),
    ]
    .concat();
    format!(
        "\
listen: {listen}
upstreams:
  up: {{ url: 'http://{upstream}' }}
endpoints:
  GET /proxy: up /item
  GET /rows: up /list
  GET /pick:
    pipeline:
      - request: up /user
      - transform: '{{id, name, city: .address.city}}'
  GET /merge:
    pipeline:
      - requests: {{ a: up /d/1, b: up /d/2, c: up /d/3 }}
      - merge: '{{a: $a.id, b: $b.text, c: $c}}'
  GET /ten:
    pipeline:
      - request: {{ to: up, path: '/d/{{.}}', for_each: 'range(1; 11)' }}
      - concatenate: {{ as: json, body_only: true }}
  GET /bare:
    pipeline:
      - request: {{ to: up, path: '/d/{{.}}', for_each: 'range(1; 101)' }}
      - concatenate: {{ as: json, body_only: true }}
{lists}"
    )
}

/// The configuration for the bytes on the wire: users one by one, and as many as the query names.
pub fn users(listen: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "\
listen: {listen}
upstreams:
  users: {{ url: 'http://{upstream}/users/api' }}
endpoints:
  GET /users:
    pipeline:
      - request: {{ to: users, path: '/users/{{.}}', for_each: '$query.ids / \",\" | .[]' }}
      - concatenate: {{ as: json, body_only: true, order: request }}
"
    )
}

/// The configuration of the reverse C10K experiment: two calls to each of three servers, merged.
pub fn mashup(listen: SocketAddr, servers: &[SocketAddr]) -> String {
    let upstream = |(number, address): (usize, &SocketAddr)| format!("  up{number}: 'http://{address}'\n");
    let upstreams: String = servers.iter().enumerate().map(upstream).collect();
    format!(
        "\
listen: {listen}
upstreams:
{upstreams}endpoints:
  GET /mashup:
    pipeline:
      - requests: {{ a: up0 /1, b: up0 /2, c: up1 /1, d: up1 /2, e: up2 /1, f: up2 /2 }}
      - merge: '{{a: $a, b: $b, c: $c, d: $d, e: $e, f: $f}}'
"
    )
}

/// A proxy of an upstream that is written like this.
pub fn proxy(listen: SocketAddr, upstream: &str) -> String {
    format!(
        "\
listen: {listen}
upstreams:
  up: {upstream}
endpoints:
  GET /proxy: up /item
"
    )
}

/// Rows that are handed on, compressed as it is told.
pub fn rows(listen: SocketAddr, rows: SocketAddr, items: SocketAddr, compress: &str) -> String {
    format!(
        "\
listen: {listen}
compress: {compress}
upstreams:
  rows: {{ url: 'http://{rows}' }}
  items: {{ url: 'http://{items}' }}
endpoints:
  GET /rows: rows /rows
  GET /proxy: items /item
"
    )
}

/// Source E's API: five calls on one table.
pub fn items(listen: SocketAddr, admin: SocketAddr, url: &str, connections: u32) -> String {
    format!(
        "\
listen: {listen}
admin: {admin}
databases:
  items: {{ url: '{url}', connections: {connections} }}
endpoints:
  POST /api/items:
    pipeline:
      - sql: {{ to: items, query: 'insert into items (value) values ($1) returning id, value', values: [$body.value], one: true }}
      - respond: {{ status: 201, headers: {{ location: '/api/items/{{.id}}' }} }}
  GET /api/items:
    pipeline:
      - sql: {{ to: items, query: 'select id, value from items order by id limit 20' }}
  GET /api/items/{{id}}:
    pipeline:
      - sql: {{ to: items, query: 'select id, value from items where id = $1', values: ['$path.id | tonumber'], one: true }}
  PUT /api/items/{{id}}:
    pipeline:
      - sql:
          to: items
          query: 'update items set value = $2 where id = $1 returning id, value'
          values: ['$path.id | tonumber', $body.value]
          one: true
  DELETE /api/items/{{id}}:
    pipeline:
      - sql:
          to: items
          query: 'delete from items where id = $1 returning id, value'
          values: ['$path.id | tonumber']
          one: true
"
    )
}

/// A cached read whose entry is kept until a trigger says that the row has changed; and an answer that is cached without a database.
pub fn cached(listen: SocketAddr, admin: SocketAddr, url: &str, connections: u32) -> String {
    format!(
        "\
listen: {listen}
admin: {admin}
databases:
  items: {{ url: '{url}', connections: {connections} }}
events:
  - {{ postgres: '{url}', channel: items, purge: '\"item:\\(.id)\"' }}
endpoints:
  GET /api/items/{{id}}:
    cache: {{ for: 1h, tags: '\"item:\\(.id)\"' }}
    pipeline:
      - sql: {{ to: items, query: 'select id, value from items where id = $1', values: ['$path.id | tonumber'], one: true }}
  GET /hit/{{id}}:
    cache: {{ for: 1h, tags: '\"item:\\(.id)\"' }}
    pipeline:
      - respond: {{ body: '$path.id | tonumber | {{id: ., value: (. % 2 == 0)}}' }}
"
    )
}
