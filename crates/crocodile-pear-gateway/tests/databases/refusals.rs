//! Refusals of the database, and mistakes of the operator.

use crate::databases::database::Database;
use crate::databases::gateway;

const TABLES: &str = "create table owners (id int primary key);
    create table items (id int primary key, name text not null, owner int references owners, amount int check (amount > 0));
    insert into owners values (1);
    insert into items values (1, 'a', 1, 1)";

const INSERT: &str = "  POST /items:
    pipeline:
      - sql:
          to: main
          query: insert into items values ($1, $2, $3, $4)
          values: [$body.id, $body.name, $body.owner, $body.amount]
  DELETE /owners/{id}:
    pipeline:
      - sql: { to: main, query: delete from owners where id = $1, values: ['$path.id | tonumber'], one: true }
  GET /items/{id}:
    pipeline:
      - sql: { to: main, query: 'select * from items where id = $1', values: ['$path.id | tonumber'], one: true }
  GET /items:
    pipeline:
      - sql: { to: main, query: select * from items, one: true }
  GET /divide/{by}:
    pipeline:
      - sql: { to: main, query: select 1 / $1 as v, values: ['$path.by | tonumber'] }
  POST /gone:
    pipeline:
      - sql: { to: main, query: delete from gone }
";

#[test]
fn rules_of_the_database_are_told_without_its_names() {
    let Some(database) = Database::shared() else { return };
    let session = database.connect();
    session.run(TABLES).unwrap();
    session.run("create table gone (id int)").unwrap();
    let scene = gateway("rules", &database, "", INSERT);
    session.run("drop table gone").unwrap();
    let mut client = scene.client();
    let cases = [
        ("POST", "/items", r#"{"id":1,"name":"b"}"#, 409, "must be unique"),
        ("POST", "/items", r#"{"id":2,"name":"b","owner":9}"#, 422, "refers to"),
        ("POST", "/items", r#"{"id":2,"name":"b","amount":0}"#, 422, "not allowed"),
        ("POST", "/items", r#"{"id":2}"#, 422, "missing"),
        ("POST", "/items", r#"{"id":2,"name":"b","amount":2}"#, 200, r#"{"rows":1}"#),
        ("DELETE", "/owners/1", "", 422, "refers to"),
        ("DELETE", "/owners/7", "", 404, "no such row"),
        ("GET", "/items/1", "", 200, r#"{"id":1,"name":"a","owner":1,"amount":1}"#),
        ("GET", "/items/9", "", 404, "no such row"),
        ("GET", "/items/x", "", 400, "bad-request"),
        ("GET", "/items", "", 500, "several rows"),
        ("GET", "/divide/0", "", 400, "divided by zero"),
        ("POST", "/gone", "", 500, "a statement failed"),
    ];
    for (method, path, body, status, wanted) in cases {
        let reply = client.ask(method, path, &[], body);
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
        assert!(reply.body.contains(wanted), "{}", reply.body);
        let names = ["owners", "items_", "constraint", "relation", "gone", "insert"];
        assert!(names.iter().all(|name| !reply.body.contains(name)), "{}", reply.body);
    }
    // The operator learns what it was.
    scene.until("it is logged", || scene.count("does not exist") == 1);
    // And after all that the connection is as good as before.
    assert_eq!(client.get("/items/2").status, 200);
}

#[test]
fn a_wrong_statement_is_told_with_its_line() {
    let Some(database) = Database::shared() else { return };
    database.connect().run("create table items (id int, at point)").unwrap();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("databases_wrong.yaml");
    let config = format!(
        "listen: 127.0.0.1:0
databases: {{ main: {} }}
endpoints:
  GET /a:
    pipeline:
      - sql: {{ to: main, query: select idd from items }}
  GET /b:
    pipeline:
      - sql: {{ to: main, query: select at from items }}
  GET /c:
    pipeline:
      - sql: {{ to: main, query: select id from items where id = $1 }}
  GET /d:
    pipeline:
      - sql: {{ to: mian, query: select 1 as a }}
",
        database.url()
    );
    std::fs::write(&file, config).unwrap();
    let check =
        std::process::Command::new(env!("CARGO_BIN_EXE_crocodile-pear")).arg("check").arg(&file).output().unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    for wanted in [
        ":6:40\n",
        "the database cannot run this: column \"idd\" does not exist",
        "the column `at` is of the type `point`",
        ":12:33\n",
        "the statement has 1 parameter, and `values` gives 0",
        "no database is named `mian`",
    ] {
        assert!(said.contains(wanted), "{wanted}\n{said}");
    }
    assert!(said.contains("did you mean `main`?") && said.contains("`at::text`"), "{said}");
}
