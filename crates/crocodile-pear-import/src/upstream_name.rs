//! Names of upstreams, made from their hosts; and names that nothing else has yet.

/// A name for a host: its first label that says something.
pub fn base(url: &str) -> String {
    let host = url.split("://").nth(1).unwrap_or(url);
    let host = host.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase();
    let is_address = host.chars().all(|letter| letter.is_ascii_digit() || letter == '.') || host.starts_with('[');
    let labels: Vec<&str> = host.split('.').filter(|label| !label.is_empty() && !label.starts_with('_')).collect();
    let word = match labels.as_slice() {
        _ if is_address => "api",
        ["localhost" | "host"] | ["host", "docker", "internal"] => "api",
        ["api" | "www", second, _, ..] => second,
        [first, ..] => first,
        [] => "api",
    };
    let word: String = word.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let word = word.trim_matches('-');
    if word.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        word.to_owned()
    } else {
        format!("api-{word}").trim_end_matches('-').to_owned()
    }
}

/// `name`, or the first of `name-2`, `name-3` and so on that is not taken.
pub fn unused(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut free = name.to_owned();
    let mut number = 1;
    while taken(&free) {
        number += 1;
        free = format!("{name}-{number}");
    }
    free
}

#[cfg(test)]
mod tests {
    use super::base;

    #[test]
    fn hosts_give_names() {
        for (url, name) in [
            ("http://users-api:8080", "users-api"),
            ("https://api.github.com", "github"),
            ("http://127.0.0.1:8000", "api"),
            ("http://host.docker.internal:3000", "api"),
            ("http+srv://_http._tcp.shop.local", "shop"),
            ("http://7up.example", "api-7up"),
        ] {
            assert_eq!(base(url), name, "{url}");
        }
    }
}
