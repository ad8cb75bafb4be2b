//! The SQL that `crocodile-pear events postgres` prints.

use std::collections::BTreeMap;
use std::process::Command;

use crate::events::database::{Database, Session};

/// The output of the command.
fn sql(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    let done = command.args(["events", "postgres"]).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The payloads that the trigger sends for a statement, without the places of the table.
fn told(session: &Session, statement: &str) -> Vec<String> {
    session.run(statement).unwrap();
    let told = session.notices();
    let short = |payload: String| {
        let mut fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(&payload).unwrap();
        assert!(fields.remove("table").is_some() && fields.remove("schema").is_some());
        serde_json::to_string(&fields).unwrap()
    };
    told.into_iter().map(short).collect()
}

#[test]
fn a_change_of_a_row_is_told_by_its_key() {
    let Some(database) = Database::start() else { return };
    let session = database.connect();
    session.run("create table items (id int primary key, value text); listen items").unwrap();
    // Twice: the second one takes the place of the first.
    session.run(&sql(&["items"])).unwrap();
    session.run(&sql(&["items"])).unwrap();
    let told = |statement| told(&session, statement);
    assert_eq!(told("insert into items values (1, 'a')"), [r#"{"id":1,"operation":"INSERT"}"#]);
    assert_eq!(told("update items set value = 'b'"), [r#"{"id":1,"operation":"UPDATE"}"#]);
    assert_eq!(
        told("update items set id = 2"),
        [r#"{"id":1,"operation":"UPDATE"}"#, r#"{"id":2,"operation":"UPDATE"}"#]
    );
    assert_eq!(told("delete from items"), [r#"{"id":2,"operation":"DELETE"}"#]);
    assert_eq!(told("truncate items"), [r#"{"operation":"TRUNCATE"}"#]);
    assert_eq!(told("begin; insert into items values (3, 'a'); rollback"), Vec::<String>::new());
    assert_eq!(told("set session_replication_role = replica; insert into items values (4, 'a')").len(), 1);
    session.run("reset session_replication_role").unwrap();
    session.run(&sql(&["items", "--remove"])).unwrap();
    assert_eq!(told("insert into items values (5, 'a')"), Vec::<String>::new());
    assert_eq!(session.one("select count(*) from pg_proc where proname like 'crocodile%'").as_deref(), Some("0"));
}

#[test]
fn names_and_keys_of_any_kind_do_no_harm() {
    let Some(database) = Database::start() else { return };
    let session = database.connect();
    let table = r#""My %s It''ems \ ""x""""#.replace("''", "'");
    let channel = r#"we"ird %s\ ch'an;nel"#;
    session
        .run(&format!(
            "create schema shop; create table shop.{table} (\"a %1$s\" text, b int, c text, primary key (\"a %1$s\", b)); \
             listen \"we\"\"ird %s\\ ch'an;nel\""
        ))
        .unwrap();
    session.run(&sql(&[&format!("shop.{table}"), "--channel", channel])).unwrap();
    let told = |statement: &str| told(&session, &statement.replace("TABLE", &format!("shop.{table}")));
    assert_eq!(told("insert into TABLE values ('it''s', 1)"), [r#"{"a %1$s":"it's","b":1,"operation":"INSERT"}"#]);
    session.run(&sql(&[&format!("shop.{table}"), "--channel", channel, "--column", "c"])).unwrap();
    assert_eq!(
        told("update TABLE set c = 'x' where b = 1"),
        [r#"{"c":null,"operation":"UPDATE"}"#, r#"{"c":"x","operation":"UPDATE"}"#]
    );
    // NOTIFY takes less than 8,000 bytes: a message without columns means the whole table, and the row is written.
    let long = "insert into TABLE select 'long', 2, string_agg(md5(i::text), '') from generate_series(1, 250) i";
    assert_eq!(told(long), [r#"{"operation":"INSERT"}"#]);
    session.run(&sql(&[&format!("shop.{table}"), "--remove"])).unwrap();
    assert_eq!(told("delete from TABLE"), Vec::<String>::new());
}

#[test]
fn long_names_stay_apart() {
    let Some(database) = Database::start() else { return };
    let session = database.connect();
    let names = ["a", "b"].map(|end| format!("{}{end}", "t".repeat(62)));
    for name in &names {
        session.run(&format!("create table {name} (id int primary key); listen {name}")).unwrap();
        session.run(&sql(&[name])).unwrap();
    }
    for name in &names {
        session.run(&format!("insert into {name} values (1)")).unwrap();
        assert!(session.notices().iter().all(|payload| payload.contains(name.as_str())));
        session.run(&sql(&[name, "--remove"])).unwrap();
    }
    assert_eq!(session.one("select count(*) from pg_proc where proname like 'crocodile%'").as_deref(), Some("0"));
}

#[test]
fn a_table_without_a_key_needs_columns() {
    let Some(database) = Database::start() else { return };
    let session = database.connect();
    session.run("create table notes (author text, note text); listen notes").unwrap();
    assert_eq!(session.run(&sql(&["notes"])), Err("the table has no primary key".to_owned()));
    session.run("rollback").unwrap();
    session.run(&sql(&["notes", "--column", "author"])).unwrap();
    let insert = "insert into notes values ('Ada', 'a')";
    assert_eq!(told(&session, insert), [r#"{"author":"Ada","operation":"INSERT"}"#]);
}

#[test]
fn what_is_no_name_is_refused() {
    for (arguments, wanted) in [
        (&["my table"][..], "`my table` is not a name in SQL"),
        (&["a;b"], "`a;b` is not a name in SQL"),
        (&["a.b.c"], "`a.b.c` is not the name of a table"),
        (&[""], "`` is not a name in SQL"),
        (&["\"a"], "a quote is missing"),
        (&["\"a\"b"], "`\"a\"b` is not a name in SQL"),
        (&["\"$body$\""], "cannot be used here"),
        (&["items", "--channel", ""], "from 1 to 63 bytes"),
        (&["items", "--column", "a.b"], "`a.b` is not the name of a column"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
        let done = command.args(["events", "postgres"]).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && told.contains(wanted), "{arguments:?}: {told}");
    }
}
