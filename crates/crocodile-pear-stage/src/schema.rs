//! The part of JSON Schema (draft 2020-12) that the gateway's schema uses. A whole validator would bring in more crates
//! than the gateway itself.

use serde_json::Value;

/// Keywords that describe a value, and forbid nothing.
const NOTES: [&str; 8] =
    ["$schema", "$defs", "title", "description", "default", "examples", "contentMediaType", "additionalProperties"];

/// A schema with its definitions.
pub struct Schema(pub Value);

impl Schema {
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.part(&self.0, value)
    }

    fn part(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let keywords = schema.as_object().ok_or_else(|| format!("{schema} is no schema"))?;
        for (keyword, wanted) in keywords {
            self.keyword(keyword, wanted, schema, value)?;
        }
        Ok(())
    }

    fn keyword(&self, keyword: &str, wanted: &Value, schema: &Value, value: &Value) -> Result<(), String> {
        let wrong = || Err(format!("{value} is against {keyword}: {wanted}"));
        let list = || wanted.as_array().into_iter().flatten();
        let fit = || list().filter(|one| self.part(one, value).is_ok()).count();
        match keyword {
            "$ref" => {
                let pointer = wanted.as_str().and_then(|text| text.strip_prefix('#')).unwrap_or_default();
                self.part(self.0.pointer(pointer).ok_or_else(|| format!("{wanted} is not defined"))?, value)
            }
            "type" if !typed(value, wanted.as_str().unwrap_or_default()) => wrong(),
            "const" if value != wanted => wrong(),
            "anyOf" if fit() == 0 => wrong(),
            "oneOf" if fit() != 1 => wrong(),
            "minItems" if value.as_array().is_some_and(|list| (list.len() as u64) < wanted.as_u64().unwrap_or(0)) => {
                wrong()
            }
            "maximum" if value.as_f64() > wanted.as_f64() => wrong(),
            "minimum" if value.as_f64() < wanted.as_f64() => wrong(),
            "pattern" if value.as_str().is_some_and(|text| !fits(text, wanted.as_str().unwrap_or_default())) => wrong(),
            "required" if list().any(|name| value.get(name.as_str().unwrap_or_default()).is_none()) => wrong(),
            "properties" => self.fields(wanted, schema.get("additionalProperties"), value),
            "items" => value.as_array().into_iter().flatten().try_for_each(|item| self.part(wanted, item)),
            "additionalProperties" if schema.get("properties").is_none() => {
                self.fields(&Value::Object(Default::default()), Some(wanted), value)
            }
            "type" | "const" | "anyOf" | "oneOf" | "minItems" | "maximum" | "minimum" | "pattern" | "required" => {
                Ok(())
            }
            note if NOTES.contains(&note) => Ok(()),
            other => Err(format!("this test does not know the keyword {other}")),
        }
    }

    fn fields(&self, known: &Value, others: Option<&Value>, value: &Value) -> Result<(), String> {
        for (name, value) in value.as_object().into_iter().flatten() {
            match known.get(name).or(others) {
                Some(Value::Bool(false)) => return Err(format!("there is no {name}")),
                None | Some(Value::Bool(true)) => {}
                Some(schema) => self.part(schema, value).map_err(|wrong| format!("{name}: {wrong}"))?,
            }
        }
        Ok(())
    }
}

fn typed(value: &Value, name: &str) -> bool {
    match name {
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// The patterns are for variables, and for numbers with a unit.
fn fits(text: &str, pattern: &str) -> bool {
    match pattern.starts_with('^') {
        false => text.contains("${"),
        true => text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(char::is_whitespace),
    }
}
