//! `validation/cel`: the conditions over requests, as jq.

use super::keys::Item;
use crate::jq;

/// The conditions of a list of checks, for `allow`; what has no counterpart is reported.
pub fn read(item: &Item<'_>, parameters: &[(String, String)]) -> Vec<String> {
    let mut conditions = Vec::new();
    for check in item.list() {
        let Some(keys) = check.map() else { continue };
        let expression = keys.take("check_expr");
        keys.end();
        let Some(expression) = expression else { continue };
        let Some(text) = expression.text() else { continue };
        match translate(&text, parameters) {
            Ok(condition) => conditions.push(condition),
            Err(why) => expression.report(
                format!("this condition is not imported: {why}. Requests pass without it"),
                "write it as `allow`, or as a `reject` step",
            ),
        }
    }
    conditions
}

/// A condition as jq.
fn translate(text: &str, parameters: &[(String, String)]) -> Result<String, String> {
    let tokens = tokens(text)?;
    let mut parser = CelParser { tokens: &tokens, at: 0, parameters };
    let condition = parser.or()?;
    match parser.peek() {
        None => Ok(condition),
        Some(token) => Err(format!("`{}` was not expected", token.text())),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum CelToken {
    Name(String),
    Text(String),
    Number(String),
    Sign(&'static str),
}

impl CelToken {
    fn text(&self) -> &str {
        match self {
            CelToken::Name(text) | CelToken::Text(text) | CelToken::Number(text) => text,
            CelToken::Sign(text) => text,
        }
    }
}

const SIGNS: [&str; 18] =
    ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", ".", ",", "+", "-", "?"];

fn tokens(text: &str) -> Result<Vec<CelToken>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' || first == '\'' {
            let inner = &rest[1..];
            let end = inner.find(first).ok_or("a text has no end")?;
            if inner[..end].contains('\\') {
                return Err("escapes in texts are not read".to_owned());
            }
            tokens.push(CelToken::Text(inner[..end].to_owned()));
            end + 2
        } else if first.is_ascii_digit() {
            let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
            tokens.push(CelToken::Number(rest[..end].to_owned()));
            end
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
            tokens.push(CelToken::Name(rest[..end].to_owned()));
            end
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).ok_or(format!("`{first}` is not known"))?;
            tokens.push(CelToken::Sign(sign));
            sign.len()
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct CelParser<'a> {
    tokens: &'a [CelToken],
    at: usize,
    parameters: &'a [(String, String)],
}

type CelResult = Result<String, String>;

impl CelParser<'_> {
    fn peek(&self) -> Option<&CelToken> {
        self.tokens.get(self.at)
    }

    fn accept(&mut self, sign: &'static str) -> bool {
        let found = self.peek() == Some(&CelToken::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        if self.accept(sign) { Ok(()) } else { Err(format!("`{sign}` is missing")) }
    }

    fn name(&mut self) -> CelResult {
        match self.tokens.get(self.at) {
            Some(CelToken::Name(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => Err("a name is missing".to_owned()),
        }
    }

    fn or(&mut self) -> CelResult {
        let mut text = self.and()?;
        while self.accept("||") {
            text = format!("({text} or {})", self.and()?);
        }
        Ok(text)
    }

    fn and(&mut self) -> CelResult {
        let mut text = self.comparison()?;
        while self.accept("&&") {
            text = format!("({text} and {})", self.comparison()?);
        }
        Ok(text)
    }

    fn comparison(&mut self) -> CelResult {
        let left = self.unary()?;
        for sign in ["==", "!=", "<=", ">=", "<", ">"] {
            if self.accept(sign) {
                return Ok(format!("({left} {sign} {})", self.unary()?));
            }
        }
        if self.peek() == Some(&CelToken::Name("in".to_owned())) {
            self.at += 1;
            let right = self.unary()?;
            return Ok(format!(
                "({left} as $x | {right} | if type == \"object\" then has($x) else any(.[]; . == $x) end)"
            ));
        }
        Ok(left)
    }

    fn unary(&mut self) -> CelResult {
        match self.accept("!") {
            true => Ok(format!("({} | not)", self.unary()?)),
            false => self.primary(),
        }
    }

    fn primary(&mut self) -> CelResult {
        let mut text = match self.tokens.get(self.at).cloned() {
            Some(CelToken::Sign("(")) => {
                self.at += 1;
                let inner = self.or()?;
                self.expect(")")?;
                inner
            }
            Some(CelToken::Sign("[")) => self.list()?,
            Some(CelToken::Text(text)) => {
                self.at += 1;
                jq::text(&text)
            }
            Some(CelToken::Number(number)) => {
                self.at += 1;
                number
            }
            Some(CelToken::Name(name)) => {
                self.at += 1;
                self.named(&name)?
            }
            other => return Err(format!("`{}` was not expected", other.as_ref().map_or("the end", CelToken::text))),
        };
        loop {
            if self.accept(".") {
                let name = self.name()?;
                text =
                    if self.accept("(") { self.method(&text, &name)? } else { format!("{text}{}", jq::field(&name)) };
            } else if self.accept("[") {
                let index = self.or()?;
                self.expect("]")?;
                text = format!("{text}[{index}]");
            } else {
                return Ok(text);
            }
        }
    }

    fn list(&mut self) -> CelResult {
        self.expect("[")?;
        let mut items = Vec::new();
        while !self.accept("]") {
            items.push(self.or()?);
            self.accept(",");
        }
        Ok(format!("[{}]", items.join(", ")))
    }

    /// The expression that a name stands for.
    fn named(&mut self, name: &str) -> CelResult {
        Ok(match name {
            "true" | "false" | "null" => name.to_owned(),
            "has" => {
                self.expect("(")?;
                let inner = self.primary()?;
                self.expect(")")?;
                format!("({inner} != null)")
            }
            "size" => {
                self.expect("(")?;
                let inner = self.or()?;
                self.expect(")")?;
                format!("({inner} | length)")
            }
            "JWT" => "$claims".to_owned(),
            "req_headers" => {
                let key = self.member()?.to_ascii_lowercase();
                self.repeated("$headers", &key)
            }
            "req_querystring" => {
                let key = self.member()?;
                self.repeated("$query", &key)
            }
            "req_params" => {
                let key = self.member()?;
                let same = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(&key);
                let ours = self.parameters.iter().find(same).map(|(_, ours)| ours);
                format!("$path{}", jq::field(ours.ok_or(format!("the endpoint has no parameter `{key}`"))?))
            }
            other => return Err(format!("`{other}` has no counterpart")),
        })
    }

    /// The key that a map of the request is asked for: `.Key` or `['Key']`.
    fn member(&mut self) -> CelResult {
        if self.accept(".") {
            return self.name();
        }
        self.expect("[")?;
        let Some(CelToken::Text(key)) = self.tokens.get(self.at).cloned() else {
            return Err("a key is missing".to_owned());
        };
        self.at += 1;
        self.expect("]")?;
        Ok(key)
    }

    /// All values of a field, as CEL has them; null where there are none.
    fn repeated(&self, map: &str, key: &str) -> String {
        format!("({map}{} | if . == null then null else [.] | flatten end)", jq::field(key))
    }

    fn method(&mut self, subject: &str, name: &str) -> CelResult {
        let argument = match self.accept(")") {
            true => String::new(),
            false => {
                let argument = self.or()?;
                self.expect(")")?;
                argument
            }
        };
        Ok(match name {
            "size" if argument.is_empty() => format!("({subject} | length)"),
            "matches" => format!("({subject} | test({argument}))"),
            "startsWith" => format!("({subject} | startswith({argument}))"),
            "endsWith" => format!("({subject} | endswith({argument}))"),
            "contains" => format!("({subject} | contains({argument}))"),
            other => return Err(format!("the function `{other}` has no counterpart")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn conditions_are_jq() {
        let parameters = [("id".to_owned(), "id".to_owned())];
        for (cel, jq) in [
            ("JWT.sub == 'a' && req_params.Id != \"7\"", "(($claims.sub == \"a\") and ($path.id != \"7\"))"),
            ("!has(JWT.admin)", "(($claims.admin != null) | not)"),
            (
                "req_headers['X-Key'].size() >= 1",
                "((($headers[\"x-key\"] | if . == null then null else [.] | flatten end) | length) >= 1)",
            ),
        ] {
            assert_eq!(translate(cel, &parameters).as_deref(), Ok(jq), "{cel}");
        }
        for cel in ["resp_data.a == 1", "now > 1", "JWT.a ==", "JWT.a.map(x, x)", "req_params.Other == ''", "'a"] {
            assert!(translate(cel, &parameters).is_err(), "{cel}");
        }
    }
}
