//! The operators' page in a real browser.

// What a test measures it prints.
#![allow(clippy::print_stdout)]

pub(crate) mod browser;
use crate::stage;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use browser::Browser;
use serde_json::Value;
use stage::client::Client;
use stage::gateway::Gateway;
use stage::ports::free_address;
use stage::shop::Shop;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);

struct Scene {
    gateway: Gateway,
    admin: SocketAddr,
    config: PathBuf,
    _shop: Shop,
}

impl Scene {
    fn new(name: &str) -> Self {
        Scene::with(name, "")
    }

    /// With more lines of configuration.
    fn with(name: &str, more: &str) -> Self {
        // `/first` answers the number that `/second` is asked with; what is asked for under `/bad` fails.
        let shop = Shop::open(|asked, stream| {
            let (status, body) = match asked.target.split('?').next().unwrap() {
                "/first" => ("200 OK", "[7,8]"),
                "/bad" => ("500 Internal Server Error", "{}"),
                _ => ("200 OK", "{\"name\":\"x\"}"),
            };
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )
        });
        let gone = free_address();
        let admin = free_address();
        let config = format!(
            "listen: 127.0.0.1:0
admin: {admin}
threads: 2
upstreams:
  shop: http://{shop}
  gone: http://{gone}
endpoints:
  GET /plain/{{*path}}: shop /{{*path}}
  GET /gone: gone /x
  GET /both:
    pipeline:
      - request: shop /first?key=a-secret-of-the-configuration
      - request: {{ to: shop, path: '/second/{{.}}', for_each: '.[]' }}
      - timer: got seconds
      - concatenate: {{ as: json, body_only: true }}
{more}",
            shop = shop.address
        );
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{name}.yaml"));
        std::fs::write(&file, config).unwrap();
        let gateway = Gateway::run(&file);
        Scene { gateway, admin, config: file, _shop: shop }
    }

    /// Asks, and reads the answer to its end.
    fn ask(&self, path: &str) -> u16 {
        get(self.gateway.address, path).0
    }

    fn status(&self) -> Value {
        serde_json::from_str(&get(self.admin, "/status").1).unwrap()
    }

    async fn page(&self, browser: &mut Browser) {
        browser.open(&format!("http://{}/", self.admin)).await;
        browser.until("document.getElementById('live').textContent === 'live'").await;
    }
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut client = Client::connect(address).unwrap();
    client.ask("GET", format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).unwrap();
    let status = client.head().unwrap().status;
    (status, String::from_utf8(client.rest().unwrap()).unwrap())
}

/// The sum of the samples of a metric whose labels hold this text.
fn scraped(metrics: &str, name: &str, label: &str) -> u64 {
    let samples = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn the_page_shows_what_the_scrape_counts_and_asks_nobody_else() {
    let Some(mut browser) = Browser::start("figures").await else { return };
    let scene = Scene::new("figures");
    (0..20).for_each(|_| assert_eq!(scene.ask("/plain/a"), 200));
    (0..5).for_each(|_| assert_eq!(scene.ask("/gone"), 502));
    scene.page(&mut browser).await;
    browser.until("document.getElementById('about').textContent.includes('25 requests, 5 failed')").await;
    let metrics = get(scene.admin, "/metrics").1;
    assert_eq!(scraped(&metrics, "crocodile_pear_responses_total", "status="), 25);
    assert_eq!(scraped(&metrics, "crocodile_pear_responses_total", "5xx"), 5);
    let row = "[...document.querySelectorAll('#routes tbody tr')].find((row) => row.textContent.includes('GET /gone'))";
    browser.until(&format!("{row}.children[6].textContent === '5'")).await;
    assert_eq!(browser.value(&format!("{row}.children[2].textContent")).await, "5 · 100 %");
    let causes =
        "[...document.querySelectorAll('#failures tbody tr')].map((row) => row.children[2].textContent).join()";
    assert_eq!(browser.value(causes).await, ["unreachable"; 5].join(","));
    let own = format!("http://{}/", scene.admin);
    let foreign: Vec<String> =
        browser.urls().into_iter().filter(|url| !url.starts_with(&own) && !url.starts_with("data:")).collect();
    assert_eq!(foreign, ["about:blank"; 0], "{:?}", browser.urls());
    let responses = browser.events.iter().filter(|(event, _)| event == "Network.responseReceived");
    let page = responses.map(|(_, params)| &params["response"]).find(|response| response["url"] == *own).unwrap();
    let policy = page["headers"]["content-security-policy"].as_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[tokio::test]
async fn the_page_shows_what_clients_were_spared() {
    let Some(mut browser) = Browser::start("analytics").await else { return };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page-figures");
    let _ = std::fs::remove_dir_all(&folder);
    let scene = Scene::with("analytics", &format!("analytics: {}\n", folder.display()));
    (0..4).for_each(|_| assert_eq!(scene.ask("/both"), 200));
    scene.page(&mut browser).await;
    // Three calls for each request: two of them its client would have had to send.
    let row =
        "[...document.querySelectorAll('#figures tbody tr')].find((row) => row.textContent.includes('GET /both'))";
    browser.until(&format!("{row}?.children[6].textContent === '8'")).await;
    assert_eq!(browser.value(&format!("{row}.children[5].textContent")).await, "12");
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[tokio::test]
async fn a_request_is_drawn_with_its_calls_where_they_were() {
    let Some(mut browser) = Browser::start("waterfall").await else { return };
    let scene = Scene::new("waterfall");
    assert_eq!(scene.ask("/both"), 200);
    scene.page(&mut browser).await;
    // One click from the route to its slowest request.
    browser.until("document.querySelector('#routes tbody button')").await;
    let click = "document.querySelector('#routes tbody button').click()";
    // The answer to what the click asks for never comes. The page asks again by itself.
    let held = "const ask = fetch; fetch = (...words) => { fetch = ask; return new Promise(() => {}); }";
    browser.value(&format!("(() => {{ {held}; {click}; }})()")).await;
    browser.until("document.querySelectorAll('.bar-row.call[data-call]').length === 3").await;
    let calls = "[...document.querySelectorAll('.bar-row[data-call]')].map((row) => row.dataset.call).sort()";
    assert_eq!(browser.value(calls).await, serde_json::json!(["shop /first", "shop /second/7", "shop /second/8"]));
    // The calls of the second step begin after the head of the first.
    let places = "[...document.querySelectorAll('.bar-row[data-call]')].map((row) => {
        const bar = row.querySelector('rect.first').getBoundingClientRect();
        return [bar.left, bar.right]; })";
    let places: Vec<(f64, f64)> = serde_json::from_value(browser.value(places).await).unwrap();
    assert!(places[1..].iter().all(|(left, _)| *left >= places[0].1 - 2.0), "{places:?}");
    let marks = browser.value("document.querySelector('.bar-row.mark').textContent").await;
    assert!(marks.as_str().unwrap().contains("got seconds"), "{marks}");
    assert!(!browser.value("document.documentElement.outerHTML").await.as_str().unwrap().contains("a-secret"));
    // The same by its id, with the keyboard.
    let id = browser.value("document.querySelector('#detail .facts').textContent").await;
    let id = id.as_str().unwrap().rsplit("id ").next().unwrap().to_owned();
    browser.value("document.getElementById('detail').replaceChildren(); document.getElementById('id').focus()").await;
    browser.call("Input.insertText", serde_json::json!({ "text": id })).await;
    for kind in ["keyDown", "keyUp"] {
        let key = serde_json::json!({ "type": kind, "key": "Enter", "text": "\r", "windowsVirtualKeyCode": 13 });
        browser.call("Input.dispatchKeyEvent", key).await;
    }
    browser.until(&format!("document.querySelector('#detail .facts').textContent.includes('{id}')")).await;
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[tokio::test]
async fn names_of_requests_are_text() {
    let Some(mut browser) = Browser::start("names").await else { return };
    let scene = Scene::new("names");
    let path = "/plain/%3Cscript%3Ewindow.taken=1%3C/script%3E'&quot;";
    scene.ask(path);
    // The server refuses such a path as it is, with what that may leave in a list.
    scene.ask("/<img/src=x/onerror=window.taken=1>");
    scene.page(&mut browser).await;
    browser.until("document.querySelectorAll('#list tbody button').length === 2").await;
    let plain =
        "[...document.querySelectorAll('#list tbody button')].find((one) => one.textContent.includes('/plain/'))";
    browser.value(&format!("{plain}.click()")).await;
    browser.until("document.querySelector('#detail h3').textContent.includes('&quot;')").await;
    // Whatever a gateway would say.
    let hostile = "<img src=x onerror=window.taken=1><script>window.taken=1</script>";
    let tell = format!(
        "(() => {{ source.close(); const bad = {hostile:?}; const taint = (value) => typeof value === 'string' ? bad
          : Array.isArray(value) ? value.map(taint) : value && typeof value === 'object'
          ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, taint(one)])) : value;
        const status = taint(state.status);
        status.routes.push({{ number: 99, name: bad, requests: 1, failed: 1, all: 1 }});
        status.failures = [{{ at: 1, id: bad, route: bad, cause: bad, upstream: bad, detail: bad }}];
        status.configuration.refused = {{ at: 1, problems: [bad] }};
        status.configuration.warnings = [bad];
        receive({{ data: JSON.stringify(status) }});
        draw({{ ...taint({{ id: '', route: '', method: '', path: '', ended: '' }}), status: 1, total: 1, head: 1, bytes: 1, at: 1,
          calls: 1, made: [taint({{ upstream: '', server: '', method: '', path: '', step: '', index: 0, attempt: 1, began: 0,
          connected: null, opening: null, head: null, ended: null, status: null, error: '', bytes: 0, cache: '' }})],
          marks: [{{ label: bad, first: 0, last: 1, messages: 1 }}], reasons: [taint({{ cause: '', detail: '' }})] }});
        return document.body.innerText.split(bad).length; }})()"
    );
    assert!(browser.value(&tell).await.as_u64().unwrap() > 10, "it is all shown as it is");
    browser.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))").await;
    assert!(browser.value("window.taken").await.is_null());
    assert_eq!(browser.value("document.querySelectorAll('img, main script').length").await, 0);
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
}

#[tokio::test]
async fn the_page_comes_back_after_a_restart() {
    let Some(mut browser) = Browser::start("restart").await else { return };
    let mut scene = Scene::new("restart");
    scene.ask("/plain/a");
    scene.page(&mut browser).await;
    browser.until("document.getElementById('about').textContent.includes('1 requests')").await;
    scene.gateway.signal("KILL").unwrap();
    scene.gateway.ended().unwrap();
    browser.until("document.getElementById('live').textContent === 'reconnecting'").await;
    scene.gateway = Gateway::run(&scene.config);
    browser.until("document.getElementById('live').textContent === 'live'").await;
    browser.until("document.getElementById('about').textContent.includes('0 requests')").await;
    scene.ask("/plain/b");
    browser.until("document.getElementById('about').textContent.includes('1 requests')").await;
    browser.until("document.querySelector('#list tbody').textContent.includes('/plain/b')").await;
}

/// Updates in thousands. `PAGE_UPDATES=288` are those of 8 hours at ten a second.
fn updates() -> u32 {
    std::env::var("PAGE_UPDATES").ok().and_then(|updates| updates.parse().ok()).unwrap_or(3)
}

#[tokio::test]
async fn the_page_does_not_grow() {
    let Some(mut browser) = Browser::start("growth").await else { return };
    let scene = Scene::new("growth");
    (0..30).for_each(|_| assert_eq!(scene.ask("/gone"), 502));
    scene.page(&mut browser).await;
    // Updates with other names and figures each time, as fast as they can be drawn.
    let status = scene.status().to_string();
    let feed = |times: u32| {
        format!(
            "(async () => {{ source.close(); window.load = () => {{}}; let turn = window.turn || 0;
            for (let n = 0; n < {times}; n++, turn++) {{
              const status = JSON.parse({status:?});
              status.minute = status.minute.map((_, at) => [turn % 97, at % 3, at, turn % 31, turn % 53]);
              status.routes = status.routes.map((route) => ({{ ...route, number: turn % 7, name: 'GET /' + turn }}));
              status.failures.forEach((failure) => {{ failure.at += turn; failure.id = 'id' + turn; }});
              receive({{ data: JSON.stringify(status) }});
              if (n % 100 === 0) await new Promise((done) => setTimeout(done));
            }} window.turn = turn; return turn; }})()"
        )
    };
    browser.value(&feed(500)).await;
    let before = measure(&mut browser).await;
    let begun = std::time::Instant::now();
    for _ in 0..updates() {
        browser.value(&feed(1_000)).await;
    }
    let each = begun.elapsed() / (updates() * 1_000);
    let after = measure(&mut browser).await;
    println!("{},000 updates: {before:?} to {after:?} (nodes, bytes), {each:?} each", updates());
    let thousands = f64::from(updates());
    assert!(after.0 <= before.0 + 5.0 * thousands, "nodes: {before:?} to {after:?}");
    assert!(after.1 <= before.1 + 100_000.0 * thousands, "bytes: {before:?} to {after:?}");
}

/// Nodes and bytes that are left after a collection.
async fn measure(browser: &mut Browser) -> (f64, f64) {
    for _ in 0..3 {
        browser.call("HeapProfiler.collectGarbage", serde_json::json!({})).await;
    }
    let metrics = browser.call("Performance.getMetrics", serde_json::json!({})).await;
    let metrics = metrics["metrics"].as_array().unwrap().clone();
    let value = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap()["value"].as_f64().unwrap();
    (value("Nodes"), value("JSHeapUsedSize"))
}

#[tokio::test]
async fn it_fits_phones_and_wide_screens_in_light_and_dark() {
    let Some(mut browser) = Browser::start("pictures").await else { return };
    let scene = Scene::new("pictures");
    for _ in 0..6 {
        for path in ["/both", "/plain/a", "/plain/b/c", "/gone", "/plain/bad", "/nothing"] {
            scene.ask(path);
        }
    }
    scene.page(&mut browser).await;
    browser.until("document.querySelectorAll('#routes tbody tr').length === 4").await;
    let both =
        "[...document.querySelectorAll('#routes tbody button')].find((one) => one.textContent.includes('/both'))";
    browser.value(&format!("{both}.click()")).await;
    browser.until("document.querySelectorAll('.bar-row.call[data-call]').length === 3").await;
    for width in [1280, 390] {
        for scheme in ["light", "dark"] {
            browser.resize(width, scheme).await;
            let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.value(overflow).await, 0, "at {width}");
            browser.picture(&format!("page-{width}-{scheme}.png")).await;
        }
    }
}
