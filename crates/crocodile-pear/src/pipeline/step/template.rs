//! A link with variables, as `explain` shows it.

/// A link of an answer that is a URI template (RFC 6570).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTemplate {
    pub template: String,
    /// Its variables, and whether the configuration gives them; `None` if only a request shows that.
    pub variables: Vec<(String, Option<bool>)>,
}

impl LinkTemplate {
    /// "/orders{?state,sort}: state from `with`, sort not given"
    pub fn outline(&self) -> String {
        let one = |(name, given): &(String, Option<bool>)| match given {
            Some(true) => format!("{name} from `with`"),
            Some(false) => format!("{name} not given"),
            None => format!("{name} if `with` has it"),
        };
        let all: Vec<String> = self.variables.iter().map(one).collect();
        format!("{}: {}", self.template, if all.is_empty() { "no variables".to_owned() } else { all.join(", ") })
    }
}
