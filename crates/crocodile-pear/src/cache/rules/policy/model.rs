//! A slow model of RFC 9111, written from its text, on strings: the policy decides as it does.

use crocodile_pear_peers::test_rng::TestRng;

use crate::cache::rules::policy::*;
use crate::cache::rules::vary::Selector;
use crate::cache::rules::vary::{matches, select};

const NOW: Moment = Moment(1_700_000_000_000);

fn some(rng: &mut TestRng, of: &[&'static str], most: usize) -> Vec<&'static str> {
    (0..rng.below(most + 1)).map(|_| rng.of(of)).collect()
}

/// An answer and its request, as texts.
#[derive(Debug)]
struct Case {
    status: u16,
    control: Vec<&'static str>,
    vary: Vec<&'static str>,
    authorized: bool,
    modified: bool,
    asked: [Option<&'static str>; 2],
    asks: [Option<&'static str>; 2],
    wants: Vec<&'static str>,
    age: u64,
}

const NAMES: [&str; 2] = ["foo", "bar"];

fn case(dice: &mut TestRng) -> Case {
    let control = [
        "max-age=60",
        "max-age=0",
        "s-maxage=60",
        "s-maxage=5",
        "no-store",
        "no-cache",
        "private",
        "public",
        "must-revalidate",
        "must-understand",
        "proxy-revalidate",
        "stale-while-revalidate=30",
        "max-age=x",
        "other",
    ];
    let wants = ["no-cache", "max-age=20", "max-stale", "max-stale=5", "min-fresh=30", "other"];
    let values = [None, Some("1"), Some("2")];
    let mut two = || [values[dice.below(3)], values[dice.below(3)]];
    let (asked, asks) = (two(), two());
    Case {
        status: [200, 200, 204, 404, 403, 500, 599][dice.below(7)],
        control: some(dice, &control, 4),
        vary: some(dice, &["foo", "bar", "Foo", "*"], 2),
        authorized: dice.below(4) == 0,
        modified: dice.below(2) == 0,
        asked,
        asks,
        wants: some(dice, &wants, 2),
        age: [0, 1, 10, 40, 59, 60, 65, 80, 100, 200][dice.below(10)],
    }
}

/// `Some(true)`: it is given without asking its upstream. `None`: it is not kept.
fn model(case: &Case) -> Option<bool> {
    let has = |name: &str| case.control.contains(&name);
    let seconds = |name: &str| {
        let values = case.control.iter().filter_map(|directive| directive.strip_prefix(name));
        values.map(|value| value.parse::<u64>().unwrap_or(0)).min()
    };
    let understood = case.status != 599;
    // 3: storing.
    if has("private") || case.vary.contains(&"*") {
        return None;
    }
    if has("must-understand") && !understood || has("no-store") && !has("must-understand") {
        return None;
    }
    let shared = seconds("s-maxage=");
    if case.authorized && !(has("public") || has("must-revalidate") || shared.is_some()) {
        return None;
    }
    let explicit = shared.or(seconds("max-age="));
    let heuristic = [200, 204, 404].contains(&case.status) || has("public");
    let lifetime = match explicit {
        Some(explicit) => explicit,
        None if heuristic && case.modified => 100,
        None if heuristic => 0,
        None => return None,
    };
    if lifetime == 0 && !case.modified {
        return None;
    }
    // 4: reusing.
    let differs = |name: &str| case.vary.iter().any(|vary| vary.eq_ignore_ascii_case(name));
    if NAMES.iter().enumerate().any(|(at, name)| differs(name) && case.asked[at] != case.asks[at]) {
        return Some(false);
    }
    let wants = |name: &str| case.wants.contains(&name);
    if has("no-cache") || wants("no-cache") || wants("max-age=20") && case.age > 20 {
        return Some(false);
    }
    if lifetime > case.age && (!wants("min-fresh=30") || lifetime - case.age >= 30) {
        return Some(true);
    }
    let strict = has("must-revalidate") || has("proxy-revalidate") || shared.is_some();
    if strict || wants("min-fresh=30") {
        return Some(false);
    }
    let late = case.age.saturating_sub(lifetime);
    let takes = match case.wants.iter().rev().find(|want| want.starts_with("max-stale")) {
        Some(&"max-stale") => true,
        Some(_) => late <= 5,
        None => false,
    };
    Some(has("stale-while-revalidate=30") && late <= 30 || takes)
}

fn policy(case: &Case) -> Option<bool> {
    let mut answer = HeaderMap::new();
    let mut add = |name: HeaderName, value: &str| {
        answer.append(name, value.parse().expect("a value"));
    };
    case.control.iter().for_each(|directive| add(CACHE_CONTROL, directive));
    case.vary.iter().for_each(|name| add(http::header::VARY, name));
    add(http::header::DATE, &NOW.to_date());
    if case.modified {
        add(LAST_MODIFIED, &NOW.before(Duration::from_secs(1000)).to_date());
    }
    let request = |fields: &[Option<&str>; 2], wants: &[&str]| {
        let mut request = HeaderMap::new();
        for (name, value) in NAMES.into_iter().zip(fields) {
            request.extend(value.map(|value| (HeaderName::from_static(name), value.parse().expect("a value"))));
        }
        wants.iter().for_each(|want| drop(request.append(CACHE_CONTROL, want.parse().expect("a value")).to_string()));
        request
    };
    let personal = CredentialUse { authorization: case.authorized, ..CredentialUse::default() };
    let status = StatusCode::from_u16(case.status).expect("a status");
    let fetched = FetchTimes { asked: NOW, came: NOW };
    let terms = keep(status, &answer, personal, &Lifetimes::default(), fetched).ok()?;
    let Vary::On(names) = Vary::from_headers(&answer) else { return None };
    let selector: Selector = select(&names, &request(&case.asked, &[]));
    let asks = request(&case.asks, &case.wants);
    let used = terms.decide(&RequestControl::from_headers(&asks), false, NOW.after(Duration::from_secs(case.age)));
    Some(matches(&selector, &asks, &answer) && used != Use::Validate)
}

#[test]
fn ten_thousand_answers_are_kept_and_given_as_the_model_says() {
    let mut dice = TestRng(0x5eed_9776);
    let mut given = 0;
    for _ in 0..10_000 {
        let case = case(&mut dice);
        let wanted = model(&case);
        given += usize::from(wanted == Some(true));
        assert_eq!(policy(&case), wanted, "{case:?}");
    }
    assert!(given > 300, "{given}");
}
