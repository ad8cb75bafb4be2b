//! Users, in the sizes of the thesis: 286 bytes each, 55,205 bytes for a list of fifty.

use crate::prose::{choose, fill, mix};
use crate::reply::{self, Reply, parameter};

const USERS: u64 = 1_000;
const SIZE: usize = 286;

const FIRST: [&str; 12] =
    ["Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "Joe", "John", "Karen", "Leslie", "Tony"];
const LAST: [&str; 13] =
    ["Berg", "Dahl", "Ek", "Falk", "Gran", "Holm", "Lind", "Lund", "Nord", "Sand", "Sjo", "Strand", "Vik"];
const CITIES: [&str; 7] = ["Copenhagen", "Goteborg", "Helsingborg", "Kalmar", "Lund", "Malmo", "Ystad"];

/// A user, if there is one of that number.
pub fn one(id: &str) -> Option<Reply> {
    let id = id.parse().ok().filter(|id| (1..=USERS).contains(id))?;
    Some(reply::json(short(id)))
}

/// The users of `ids=1,2,3`, as they are alone. Otherwise the first users, as many as `limit` says (fifty), each with more
/// fields than it has alone.
pub fn list(query: Option<&str>) -> Reply {
    if let Some(ids) = parameter(query, "ids") {
        let ids = ids.split(',').filter_map(|id| id.parse().ok()).filter(|id| (1..=USERS).contains(id));
        return reply::json(format!("[{}]", ids.map(short).collect::<Vec<_>>().join(",")));
    }
    let limit = parameter(query, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(50);
    let users: Vec<String> = (1..=USERS.min(limit)).map(long).collect();
    reply::json(format!("[{}]", users.join(",")))
}

fn short(id: u64) -> String {
    let (name, email, city) = person(id);
    fill(SIZE, id, |about| {
        format!(r#"{{"id":{id},"name":"{name}","email":"{email}","city":"{city}","active":true,"about":"{about}"}}"#)
    })
}

fn long(id: u64) -> String {
    let (name, email, city) = person(id);
    let key = |turn| mix(id, turn);
    let [a, b, c, d] = [key(1), key(2), key(3), key(4)];
    // What does not compress: with it the list's gzip comes to the thesis's 16.5 KB.
    let signature: String = (5..15).map(|turn| format!("{:016x}", key(turn))).collect();
    let (phone, number, zip) = (a % 10_000_000, b % 120 + 1, c % 90_000 + 10_000);
    fill(long_size(id), id, |about| {
        [
            format!(r#"{{"id":{id},"uuid":"{a:016x}{b:016x}","name":"{name}","email":"{email}","#),
            format!(r#""phone":"+4640{phone:07}","address":{{"street":"{number} Station Road","city":"{city}","#),
            format!(r#""postcode":"{zip}","country":"SE"}},"signature":"{signature}","active":true,"#),
            format!(r#""avatar":"/avatars/{c:016x}.png","token":"{d:016x}{c:016x}{a:016x}","#),
            format!(r#""links":{{"self":"/users/api/users/{id}","orders":"/users/api/users/{id}/orders"}},"#),
            format!(r#""about":"{about}"}}"#),
        ]
        .concat()
    })
}

/// Fifty of these, 49 commas and two brackets are 55,205 bytes.
fn long_size(id: u64) -> usize {
    if id <= 4 { 1_104 } else { 1_103 }
}

fn person(id: u64) -> (String, String, &'static str) {
    let (first, last) = (choose(&FIRST, id), choose(&LAST, id));
    let email = format!("{first}.{last}.{id}@example.org").to_lowercase();
    (format!("{first} {last}"), email, choose(&CITIES, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_286_bytes() {
        for id in 1..=USERS {
            let user = short(id);
            assert_eq!(user.len(), SIZE);
            let user: serde_json::Value = serde_json::from_str(&user).expect("JSON");
            assert_eq!(user["id"], id);
        }
    }

    #[test]
    fn fifty_users_have_55_205_bytes() {
        use http_body::Body as _;
        assert_eq!(list(None).body().size_hint().exact(), Some(55_205));
        assert_eq!(list(Some("limit=50")).body().size_hint().exact(), Some(55_205));
        for id in 1..=50 {
            serde_json::from_str::<serde_json::Value>(&long(id)).expect("JSON");
        }
    }

    #[test]
    fn there_is_no_user_beyond_the_last() {
        assert!(one("1000").is_some());
        assert!(one("0").is_none() && one("1001").is_none() && one("ada").is_none());
    }
}
