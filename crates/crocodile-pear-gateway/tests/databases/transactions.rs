//! Several statements: all of them are done, or none.

use crate::databases::database::Database;
use crate::databases::gateway;

const MOVE: &str = "  POST /move/{from}/{to}:
    pipeline:
      - sql:
          to: main
          transaction:
            - { query: 'update accounts set amount = amount - $2 where id = $1', values: ['$path.from | tonumber', $body], one: true }
            - { query: 'update accounts set amount = amount + $2 where id = $1 returning *', values: ['$path.to | tonumber', $body], one: true }
  GET /both:
    pipeline:
      - requests:
          sum: { sql: { to: main, query: select sum(amount)::int as v from accounts, one: true } }
          most: { sql: { to: main, query: 'select id from accounts where amount <= $1 order by id', values: [$sum.v] } }
      - merge: '{sum: $sum.v, most: [$most[].id]}'
  GET /beside:
    pipeline:
      - sql: { to: main, query: select id from accounts order by id }
      - each: '.[]'
      - sql: { to: main, query: 'select amount as v from accounts where id = $1', values: [.id], one: true, as: amount }
      - transform: '{id, amount: .amount.v}'
      - concatenate: { as: json, body_only: true, order: request }
";

const ACCOUNTS: &str = "create table accounts (id int primary key, amount int check (amount >= 0));
    insert into accounts values (1, 100), (2, 0)";

#[test]
fn a_transaction_is_done_whole_or_not_at_all() {
    let Some(database) = Database::shared() else { return };
    let session = database.connect();
    session.run(ACCOUNTS).unwrap();
    let scene = gateway("transaction", &database, "", MOVE);
    let mut client = scene.client();
    let amounts = || session.one("select string_agg(amount::text, ' ' order by id) from accounts").unwrap();
    let reply = client.ask("POST", "/move/1/2", &[], "30");
    assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"id":2,"amount":30}"#));
    assert_eq!(client.ask("POST", "/move/1/9", &[], "30").status, 404);
    assert_eq!(client.ask("POST", "/move/1/2", &[], "300").status, 422);
    assert_eq!(client.ask("POST", "/move/1/2", &[], "\"x\"").status, 400);
    assert_eq!(amounts(), "70 30");
    assert_eq!(session.sessions("state like 'idle in%'"), 0);
}

#[test]
fn transactions_in_each_others_way_all_come_to_their_end() {
    // By default, PostgreSQL looks for a deadlock after a second.
    let settings = ["default_transaction_isolation=serializable", "deadlock_timeout=20ms"];
    let Some(database) = Database::with(&settings) else { return };
    let session = database.connect();
    session.run(ACCOUNTS).unwrap();
    session.run("update accounts set amount = 1000").unwrap();
    let scene = gateway("serial", &database, "", MOVE);
    let clients: Vec<_> = [("/move/1/2", 20), ("/move/2/1", 20)]
        .map(|(path, times)| {
            let mut client = scene.client();
            std::thread::spawn(move || {
                (0..times).map(|_| client.ask("POST", path, &[], "1").status).collect::<Vec<_>>()
            })
        })
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    // Each is done, or says that it is not.
    let [there, back] = [&clients[0], &clients[1]].map(|told| told.iter().filter(|status| **status == 200).count());
    assert!(clients.iter().flatten().all(|status| matches!(status, 200 | 503)), "{clients:?}");
    let amounts = session.one("select string_agg(amount::text, ' ' order by id) from accounts").unwrap();
    assert_eq!(amounts, format!("{} {}", 1000 - there + back, 1000 + there - back));
}

#[test]
fn statements_stand_beside_requests_and_items() {
    let Some(database) = Database::shared() else { return };
    database.connect().run(ACCOUNTS).unwrap();
    let scene = gateway("beside", &database, "", MOVE);
    let mut client = scene.client();
    assert_eq!(client.get("/both").body, r#"{"sum":100,"most":[1,2]}"#);
    assert_eq!(client.get("/beside").body, r#"[{"id":1,"amount":100},{"id":2,"amount":0}]"#);
    let metrics = scene.metrics();
    let counted =
        "db_client_operation_duration_seconds_count{db_system_name=\"postgresql\",database=\"main\",error_type=\"\"} 5";
    assert!(metrics.contains(counted), "{metrics}");
    assert!(metrics.contains("db_client_connection_count{database=\"main\",state=\"used\"} 0"), "{metrics}");
}
