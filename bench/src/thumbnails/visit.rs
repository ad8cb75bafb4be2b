//! A load of the gallery: when each picture was there by the page's own clock, and the network's record of it.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::Result;

use super::chromium::Chromium;

const PICTURES: usize = 60;

/// The page's marks and measures, which it names after the way and the picture.
const TIMELINE: &str = "performance.getEntries().filter(entry => ['mark', 'measure'].includes(entry.entryType))\
    .map(({ name, startTime, duration }) => ({ name, from: startTime, to: startTime + duration }))";

/// Both ways, one after the other.
pub struct Visit {
    pub many: Way,
    pub one: Way,
}

/// A way to load the pictures.
#[derive(Default)]
pub struct Way {
    /// By their numbers.
    pub pictures: Vec<Picture>,
    pub requests: Vec<Request>,
}

/// When a picture was asked for and when it was there, in milliseconds from the beginning of its way.
#[derive(Clone, Copy)]
pub struct Picture {
    pub asked: f64,
    pub came: f64,
}

/// A request, as the network saw it.
pub struct Request {
    connection: u64,
    bytes: f64,
    /// In seconds of the browser's clock.
    from: f64,
    to: f64,
}

impl Way {
    /// When the first picture was there.
    pub fn first(&self) -> f64 {
        self.pictures.iter().map(|picture| picture.came).fold(f64::INFINITY, f64::min)
    }

    /// When all were there.
    pub fn last(&self) -> f64 {
        self.pictures.iter().map(|picture| picture.came).fold(0.0, f64::max)
    }

    /// Bytes of the answers, heads and all.
    pub fn bytes(&self) -> f64 {
        self.requests.iter().map(|request| request.bytes).sum()
    }

    /// How many connections were used.
    pub fn connections(&self) -> usize {
        self.requests.iter().map(|request| request.connection).collect::<HashSet<_>>().len()
    }

    /// The most requests that were under way at the same time.
    pub fn at_once(&self) -> usize {
        let under_way = |at: f64| self.requests.iter().filter(|request| request.from <= at && at < request.to).count();
        self.requests.iter().map(|request| under_way(request.from)).max().unwrap_or(0)
    }

    fn of(timeline: &Value, name: &str, requests: Vec<Request>) -> Result<Self> {
        let entries = timeline.as_array().ok_or("the page has no timeline")?;
        let find = |wanted: String| entries.iter().find(move |entry| entry["name"] == wanted.as_str());
        let began = find(format!("{name} begins")).and_then(|mark| mark["from"].as_f64()).ok_or("no beginning")?;
        let picture = |number: usize| {
            let entry = find(format!("{name} {number}")).ok_or_else(|| format!("picture {number} did not come"))?;
            let at = |end: &str| entry[end].as_f64().map(|at| at - began).ok_or("no time");
            Result::Ok(Picture { asked: at("from")?, came: at("to")? })
        };
        Ok(Way { pictures: (1..=PICTURES).map(picture).collect::<Result<_>>()?, requests })
    }
}

/// Opens the page, and waits until it has loaded everything.
pub async fn pay(browser: &mut Chromium, page: &str) -> Result<Visit> {
    // A page that is left takes its measures with it.
    browser.call("Page.navigate", json!({ "url": page })).await?;
    let mut network = Network::default();
    loop {
        let event = browser.event().await?;
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => return Err(format!("the page fails: {}", event["params"]).into()),
            // The page tells its totals when it is done.
            "Runtime.consoleAPICalled" if event["params"]["type"] == "info" => break,
            method => network.note(method, &event["params"])?,
        }
    }
    let timeline = browser.evaluate(TIMELINE).await?;
    // What ended with the last picture may be told after it.
    while network.open() > 0 {
        let event = browser.event().await?;
        network.note(event["method"].as_str().unwrap_or_default(), &event["params"])?;
    }
    Ok(Visit {
        many: Way::of(&timeline, "many", network.take("/pictures/"))?,
        one: Way::of(&timeline, "one", network.take("/gallery?"))?,
    })
}

/// Requests under way and done, by the browser's numbers.
#[derive(Default)]
struct Network {
    requests: HashMap<String, (String, Request)>,
}

impl Network {
    fn note(&mut self, method: &str, about: &Value) -> Result<()> {
        let number = about["requestId"].as_str().unwrap_or_default();
        match method {
            "Network.requestWillBeSent" => {
                let url = about["request"]["url"].as_str().unwrap_or_default();
                // Data in an address is no request.
                if !url.starts_with("data:") {
                    let request = Request { connection: 0, bytes: 0.0, from: 0.0, to: 0.0 };
                    self.requests.insert(number.to_owned(), (url.to_owned(), request));
                }
            }
            "Network.responseReceived" => {
                let response = &about["response"];
                if let Some((url, request)) = self.requests.get_mut(number) {
                    if response["status"] != 200 || response["protocol"] != "http/1.1" {
                        return Err(format!("{url}: {} over {}", response["status"], response["protocol"]).into());
                    }
                    request.connection = response["connectionId"].as_f64().unwrap_or_default() as u64;
                    let timing = &response["timing"];
                    let (base, sent) = (timing["requestTime"].as_f64(), timing["sendStart"].as_f64());
                    request.from = base.unwrap_or_default() + sent.unwrap_or_default() / 1e3;
                }
            }
            "Network.loadingFinished" => {
                if let Some((_, request)) = self.requests.get_mut(number) {
                    request.bytes = about["encodedDataLength"].as_f64().unwrap_or_default();
                    request.to = about["timestamp"].as_f64().unwrap_or_default();
                }
            }
            "Network.loadingFailed" => {
                let url = self.requests.get(number).map_or("a request", |(url, _)| url);
                return Err(format!("{url}: {}", about["errorText"]).into());
            }
            _ => {}
        }
        Ok(())
    }

    /// How many are not at their end.
    fn open(&self) -> usize {
        self.requests.values().filter(|(_, request)| request.to == 0.0).count()
    }

    /// The requests whose address has this in it.
    fn take(&mut self, part: &str) -> Vec<Request> {
        let taken = self.requests.extract_if(|_, (url, _)| url.contains(part));
        taken.map(|(_, (_, request))| request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(times: &[(f64, f64)]) -> Way {
        let pictures = times.iter().map(|&(asked, came)| Picture { asked, came }).collect();
        let request = |(number, &(from, to)): (usize, &(f64, f64))| Request {
            connection: number as u64 % 2,
            bytes: 10.0,
            from,
            to,
        };
        Way { pictures, requests: times.iter().enumerate().map(request).collect() }
    }

    #[test]
    fn figures_are_those_of_all_pictures() {
        let way = way(&[(0.0, 3.0), (1.0, 2.0), (3.0, 4.0)]);
        assert_eq!((way.first(), way.last(), way.bytes()), (2.0, 4.0, 30.0));
        assert_eq!((way.connections(), way.at_once()), (2, 2));
    }

    #[test]
    fn a_picture_that_did_not_come_is_told() {
        let timeline =
            json!([{ "name": "one begins", "from": 5.0, "to": 5.0 }, { "name": "one 1", "from": 6.0, "to": 9.5 }]);
        let error = Way::of(&timeline, "one", Vec::new()).err().expect("59 are missing");
        assert_eq!(error.to_string(), "picture 2 did not come");
    }

    #[test]
    fn an_answer_over_another_protocol_is_refused() {
        let mut network = Network::default();
        let sent = json!({ "requestId": "1", "request": { "url": "http://h/pictures/1" } });
        network.note("Network.requestWillBeSent", &sent).expect("noted");
        let response = json!({ "requestId": "1", "response": { "status": 200, "protocol": "h2" } });
        assert!(network.note("Network.responseReceived", &response).is_err());
        assert_eq!(network.open(), 1);
    }
}
