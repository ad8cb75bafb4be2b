//! Streamflow, a case system whose resources link to each other, in the sizes of the thesis:
//! 373 requests and 1,100 KB to see an inbox of 156 cases.

use bytes::Bytes;

use crate::prose::{choose, fill, mix, prose};
use crate::reply::{self, Reply};

/// The inbox of the thesis.
pub const CASES: usize = 156;

/// How many of those have a priority.
const URGENT: usize = 60;

const IN_LIST: usize = 900;
const PRIORITIES: usize = 293;

/// The beginning of all identities; the number of the case follows, in hexadecimal.
const IDENTITY: &str = "b35873ba-4007-40ac-9936-975eab38395a-";

const LEVELS: [(&str, &str); 4] = [("p1", "Urgent"), ("p2", "High"), ("p3", "Normal"), ("p4", "Low")];
const SUBJECTS: [&str; 8] = [
    "Broken street lamp",
    "Overgrown hedge",
    "Water in the basement",
    "Missing road sign",
    "Noise at night",
    "Permit for a stall",
    "Snow on the path",
    "Invoice disputed",
];

/// Every resource, written once.
pub struct Streamflow {
    inbox: Bytes,
    cases: Vec<Case>,
    priorities: Bytes,
}

struct Case {
    whole: Bytes,
    general: Bytes,
}

impl Streamflow {
    pub fn new(cases: usize) -> Self {
        let listed: Vec<String> = (1..=cases).map(listed).collect();
        Self {
            inbox: format!(r#"{{"cases":[{}]}}"#, listed.join(",")).into(),
            cases: (1..=cases).map(|n| Case { whole: whole(n).into(), general: general(n).into() }).collect(),
            priorities: priorities().into(),
        }
    }

    pub fn find(&self, path: &[&str]) -> Option<Reply> {
        let page = match path {
            ["health"] => return Some(reply::json(r#"{"status":"up"}"#)),
            ["priorities"] => &self.priorities,
            ["cases", "inbox"] => &self.inbox,
            ["cases", id] => &self.case(id)?.whole,
            ["cases", id, "general"] => &self.case(id)?.general,
            _ => return None,
        };
        Some(reply::json(page.clone()))
    }

    fn case(&self, id: &str) -> Option<&Case> {
        let number = usize::from_str_radix(id.strip_prefix(IDENTITY)?, 16).ok()?;
        self.cases.get(number.checked_sub(1)?)
    }
}

/// The case as the inbox shows it. Its link is relative to `cases/inbox`.
fn listed(number: usize) -> String {
    let (id, text, name) = (identity(number), text(number), name(number));
    let created = day(number);
    fill(IN_LIST, number as u64, |description| {
        let kind = number % 5;
        [
            format!(r#"{{"id":"{id}","text":"{text}","caseId":"{name}","href":"{id}","rel":"case","status":"OPEN","#),
            format!(r#""creationDate":"{created}T08:30:00.000Z","createdBy":"administrator","#),
            format!(r#""owner":"Streets and parks","caseType":{{"id":"t{kind}","text":"Errand"}},"#),
            format!(r#""hasContacts":true,"hasAttachments":false,"description":"{description}"}}"#),
        ]
        .concat()
    })
}

/// The case itself, mostly links. They are relative to `cases/{id}`.
fn whole(number: usize) -> String {
    let (id, text, name) = (identity(number), text(number), name(number));
    let resources: Vec<String> = [
        "general",
        "contacts",
        "conversations",
        "attachments",
        "forms",
        "history",
        "labels",
        "location",
        "notes",
        "requiredforms",
        "submittedforms",
        "caselog",
        "permissions",
        "subcases",
    ]
    .iter()
    .map(|rel| format!(r#"{{"rel":"{rel}","href":"{id}/{rel}"}}"#))
    .collect();
    fill(3_700 + number * 37 % 300, !(number as u64), |description| {
        let resources = resources.join(",");
        [
            format!(r#"{{"id":"{id}","text":"{text}","caseId":"{name}","status":"OPEN","resources":[{resources}],"#),
            format!(r#""commands":["assign","close","delete","forward","resolve"],"description":"{description}"}}"#),
        ]
        .concat()
    })
}

/// The part that is wanted: a date and a note. The link is relative to `cases/{id}/general`.
fn general(number: usize) -> String {
    let due = day(number + 45);
    let note = prose(mix(number as u64, 1), 80 + number % 40);
    let priority = match urgent(number) {
        true => {
            format!(r#""priority":{{"id":"{}","href":"../../priorities"}},"#, LEVELS[number % LEVELS.len()].0)
        }
        false => String::new(),
    };
    fill(1_700 + number * 53 % 300, mix(number as u64, 2), |description| {
        format!(
            r#"{{"dueOn":"{due}T23:59:59.000Z","note":"{note}",{priority}"caseType":null,"description":"{description}"}}"#
        )
    })
}

fn priorities() -> String {
    let levels: Vec<String> = (1..)
        .zip(LEVELS)
        .map(|(order, (id, text))| format!(r#"{{"id":"{id}","text":"{text}","order":{order}}}"#))
        .collect();
    fill(PRIORITIES, 1, |about| format!(r#"{{"about":"{about}","priorities":[{}]}}"#, levels.join(",")))
}

fn identity(number: usize) -> String {
    format!("{IDENTITY}{number:x}")
}

fn text(number: usize) -> String {
    format!("{} {number}", choose(&SUBJECTS, mix(number as u64, 0)))
}

fn name(number: usize) -> String {
    format!("{}-{number}", day(number).replace('-', ""))
}

/// Days of 2015, all months taken for 28 days long.
fn day(number: usize) -> String {
    format!("2015-{:02}-{:02}", number / 28 % 12 + 1, number % 28 + 1)
}

/// Spread evenly, 60 among the first 156.
fn urgent(number: usize) -> bool {
    number * URGENT / CASES != (number - 1) * URGENT / CASES
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn read(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    /// Walks as a client without a gateway: every link, every time. Returns requests and bytes.
    fn walk(streamflow: &Streamflow) -> (usize, usize) {
        let inbox = read(&streamflow.inbox);
        let (mut requests, mut bytes) = (1, streamflow.inbox.len());
        for listed in inbox["cases"].as_array().expect("a list") {
            let id = listed["href"].as_str().expect("a link");
            let case = streamflow.case(id).expect("a case");
            let whole = read(&case.whole);
            let link = whole["resources"].as_array().into_iter().flatten().find(|link| link["rel"] == "general");
            assert_eq!(link.expect("a link")["href"], format!("{id}/general"));
            let general = read(&case.general);
            assert!(general["dueOn"].as_str().is_some_and(|due| due.ends_with("T23:59:59.000Z")));
            requests += 2;
            bytes += case.whole.len() + case.general.len();
            if general["priority"]["href"] == "../../priorities" {
                let priorities = read(&streamflow.priorities);
                let levels = priorities["priorities"].as_array().expect("a list");
                assert_eq!(levels.iter().filter(|level| level["id"] == general["priority"]["id"]).count(), 1);
                requests += 1;
                bytes += streamflow.priorities.len();
            }
        }
        (requests, bytes)
    }

    #[test]
    fn an_inbox_takes_373_requests_and_some_1_100_kilobytes() {
        let (requests, bytes) = walk(&Streamflow::new(CASES));
        assert_eq!(requests, 373);
        assert!((1_040_000..=1_110_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn the_largest_inbox_takes_600_to_900() {
        let (requests, _) = walk(&Streamflow::new(296));
        assert_eq!(requests, 706);
    }

    #[test]
    fn resources_have_the_sizes_of_the_thesis() {
        for number in 1..=CASES {
            assert_eq!(listed(number).len(), 900);
            assert!((3_500..=4_000).contains(&whole(number).len()));
            assert!((1_500..=2_000).contains(&general(number).len()));
        }
        assert_eq!(priorities().len(), 293);
        assert_eq!((1..=CASES).filter(|number| urgent(*number)).count(), 60);
    }

    #[test]
    fn other_resources_are_not_there() {
        let streamflow = Streamflow::new(2);
        assert!(streamflow.find(&["cases", &identity(2)]).is_some());
        assert!(streamflow.find(&["cases", &identity(3)]).is_none());
        assert!(streamflow.find(&["cases", &identity(0), "general"]).is_none());
        assert!(streamflow.find(&["cases"]).is_none());
    }
}
