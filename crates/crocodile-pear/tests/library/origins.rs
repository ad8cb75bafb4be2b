//! A client that calls many servers: it forgets those that it does not call again, and a link leads to none of them.

use std::io::Write;

use crocodile_pear::{Client, Kind, Parts, jq};
use crocodile_pear_peers::shop::{Shop, answer};

use crate::programs::{alone, resident};

const JSON: &str = "content-type: application/json\r\n";

/// Servers that the test calls: 20,000 with `LIBRARY_ORIGINS=20000`.
fn many() -> u32 {
    std::env::var("LIBRARY_ORIGINS").ok().and_then(|many| many.parse().ok()).unwrap_or(2_000)
}

#[tokio::test]
async fn a_client_does_not_grow_with_the_servers_that_it_calls() {
    if !alone("origins::a_client_does_not_grow_with_the_servers_that_it_calls") {
        return;
    }
    let client = Client::new();
    let call = async |at: u32| {
        // Nobody listens at these addresses of this machine.
        let url = format!("http://127.{}.{}.{}:1/", 1 + at / 62_500, at / 250 % 250, 1 + at % 250);
        client.get(url).bytes().await.unwrap_err()
    };
    for at in 0..500 {
        assert_eq!(call(at).await.kind(), Kind::Unreachable);
    }
    let before = resident();
    for at in 500..many() {
        call(at).await;
    }
    let more = resident().saturating_sub(before);
    assert!(more < 5 << 20, "{} KiB more", more >> 10);
}

#[tokio::test]
async fn a_client_that_is_dropped_leaves_no_task_behind() {
    let shop = Shop::open(|_, out| out.write_all(&answer(200, JSON, "{}")));
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..100 {
        // Its connection is kept until then.
        Client::new().get(format!("http://{}/", shop.address)).bytes().await.unwrap();
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(tasks() < before + 5, "{} tasks, {before} before", tasks());
}

#[tokio::test]
async fn a_link_leads_only_where_its_own_pipeline_calls() {
    let (other, shop) = (Shop::open(|_, out| out.write_all(&answer(200, JSON, "{}"))), "/order");
    let link = format!(r#"{{"user": "http://{}/users/7"}}"#, other.address);
    let shop = (Shop::open(move |_, out| out.write_all(&answer(200, JSON, &link))), shop);
    let client = Client::new();
    // The client knows the other server by now.
    client.get(format!("http://{}/", other.address)).bytes().await.unwrap();
    let pipeline = client
        .request([format!("http://{}{}", shop.0.address, shop.1)])
        .follow(jq(".user").unwrap(), "user")
        .concatenate_json(Parts::BodyOnly);
    let answer = pipeline.into_response().await.into_body().text().await.unwrap();
    assert!(answer.contains(r#""status":502"#), "{answer}");
    assert_eq!(other.calls(), 1);
}
