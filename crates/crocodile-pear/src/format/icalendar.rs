//! Reads iCalendar (RFC 5545) to JSON, as XML is read: names are keys, parameters begin with `@`.

use std::borrow::Cow;

use crate::error::{Error, Kind};
use crate::json::ordered::Ordered;
use crate::json::{Raw, write_string};
use crate::offload::Made;

/// Components within each other; the standard has three.
const DEPTH: usize = 16;

/// Bytes of memory for a property, without its line.
const PROPERTY: usize = 160;

/// Properties whose value is an address. It has no escapes.
const ADDRESSES: [&str; 8] = ["url", "attach", "tzurl", "source", "image", "conference", "attendee", "organizer"];

/// Properties whose value is a list.
const LISTS: [&str; 5] = ["categories", "resources", "exdate", "rdate", "freebusy"];

/// Joins lines that were folded. A fold may stand within a character, so this comes before decoding.
pub fn unfold(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.split_first() {
            Some((b' ' | b'\t', rest)) if at > 0 => out.extend_from_slice(rest),
            _ => {
                out.extend_from_slice(if at > 0 { b"\n" } else { b"" });
                out.extend_from_slice(line);
            }
        }
    }
    out
}

/// Reads a calendar whose lines are unfolded: `{"vcalendar": {"version": "2.0", "vevent": [{…}]}}`. Several calendars become a
/// list; components in a calendar are always lists.
///
/// # Errors
/// `Kind::Malformed` for a line that is no property, a component that does not end, and more than 16 components within
/// each other.
pub fn read(text: &str) -> Result<Raw, Error> {
    let (mut open, mut made) = (vec![Component::default()], Made::default());
    for (at, line) in text.split('\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let refuse = |reason: &str| refuse(reason, at + 1);
        made.add(PROPERTY + line.len());
        let property = CalendarProperty::parse(line).ok_or_else(|| refuse("this is no property"))?;
        match &*property.name {
            "begin" if open.len() > DEPTH => return Err(refuse("the components nest too deep")),
            "begin" => {
                let name = property.value.trim().to_ascii_lowercase();
                open.push(Component { name, ..Component::default() });
            }
            "end" => {
                let ended = open.pop_if(|last| last.name.eq_ignore_ascii_case(property.value.trim()));
                let (ended, around) = ended.zip(open.last_mut()).ok_or_else(|| refuse("this ends no component"))?;
                around.add_component(ended).map_err(refuse)?;
            }
            _ if open.len() == 1 => return Err(refuse("this property is in no component")),
            _ => open.last_mut().map_or(Ok(()), |last| last.add(property)).map_err(refuse)?,
        }
    }
    let (Some(all), true) = (open.pop(), open.is_empty()) else {
        return Err(Error::new(Kind::Malformed, "not valid iCalendar: a component does not end"));
    };
    let mut out = Vec::with_capacity(text.len() * 2);
    all.write(1, &mut out);
    Ok(Raw::check(&out.into())?)
}

fn refuse(reason: &str, line: usize) -> Error {
    Error::new(Kind::Malformed, format!("not valid iCalendar: {reason} (unfolded line {line})"))
}

/// A property, as it stands on its line.
struct CalendarProperty {
    name: String,
    parameters: Ordered<String, String>,
    value: String,
}

impl CalendarProperty {
    fn parse(line: &str) -> Option<Self> {
        let end = line.find([';', ':'])?;
        let (name, mut rest) = line.split_at(end);
        let fits =
            |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let mut parameters = Ordered::default();
        while let Some(after) = rest.strip_prefix(';') {
            let (name, after) = after.split_once('=').filter(|(name, _)| fits(name))?;
            let (value, after) = parameter(after)?;
            let name = name.to_ascii_lowercase();
            parameters.get_or_add(name, || value);
            rest = after;
        }
        let value = rest.strip_prefix(':')?.to_owned();
        fits(name).then(|| CalendarProperty { name: name.to_ascii_lowercase(), parameters, value })
    }

    /// Whether its value has escapes.
    fn is_text(&self) -> bool {
        let typed = self.parameters.iter().find(|(name, _)| name == "value").map(|(_, kind)| kind);
        !ADDRESSES.contains(&&*self.name) && typed.is_none_or(|kind| kind.eq_ignore_ascii_case("text"))
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.parameters.is_empty() {
            return self.write_value(out);
        }
        out.push(b'{');
        for (name, value) in self.parameters.iter() {
            write_string(&format!("@{name}"), out);
            out.push(b':');
            write_string(value, out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"#text\":");
        self.write_value(out);
        out.push(b'}');
    }

    fn write_value(&self, out: &mut Vec<u8>) {
        if LISTS.contains(&&*self.name) {
            out.push(b'[');
            self.write_members(out);
            out.push(b']');
        } else if self.is_text() {
            write_string(&unescape(&self.value), out);
        } else {
            write_string(&self.value, out);
        }
    }

    /// The members of a list, without brackets.
    fn write_members(&self, out: &mut Vec<u8>) {
        for (at, member) in members(&self.value).into_iter().enumerate() {
            out.extend_from_slice(if at > 0 { b"," } else { b"" });
            write_string(&unescape(member), out);
        }
    }
}

/// The value of a parameter up to the sign behind it, without its quotes; several stay in one text. RFC 6868 has its escapes.
fn parameter(text: &str) -> Option<(String, &str)> {
    let (mut value, mut quoted, mut signs) = (String::new(), false, text.char_indices());
    while let Some((at, c)) = signs.next() {
        let escaped = if c == '^' { text[at + 1..].chars().next() } else { None };
        match (c, escaped) {
            (_, Some('n')) => value.push('\n'),
            (_, Some('\'')) => value.push('"'),
            (_, Some('^')) => value.push('^'),
            ('"', _) => {
                quoted = !quoted;
                continue;
            }
            (';' | ':', _) if !quoted => return Some((value, &text[at..])),
            (c, _) => {
                value.push(c);
                continue;
            }
        }
        signs.next();
    }
    None
}

/// The parts between commas that are not escaped.
fn members(value: &str) -> Vec<&str> {
    let (mut found, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                found.push(&value[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&value[start..]);
    found
}

/// A text without its escapes (RFC 5545, 3.3.11).
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let (mut made, mut signs) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = signs.next() {
        match (c, signs.clone().next()) {
            ('\\', Some('n' | 'N')) => made.push('\n'),
            ('\\', Some(other @ ('\\' | ',' | ';' | ':' | '"'))) => made.push(other),
            (c, _) => {
                made.push(c);
                continue;
            }
        }
        signs.next();
    }
    made.into()
}

#[derive(Default)]
struct Component {
    name: String,
    members: Ordered<String, Member>,
}

enum Member {
    Properties(Vec<CalendarProperty>),
    Components(Vec<Component>),
}

impl Component {
    fn add(&mut self, property: CalendarProperty) -> Result<(), &'static str> {
        match self.members.get_or_add(property.name.clone(), || Member::Properties(Vec::new())) {
            Member::Properties(known) => known.push(property),
            Member::Components(_) => return Err(SAME),
        }
        Ok(())
    }

    fn add_component(&mut self, component: Component) -> Result<(), &'static str> {
        match self.members.get_or_add(component.name.clone(), || Member::Components(Vec::new())) {
            Member::Components(known) => known.push(component),
            Member::Properties(_) => return Err(SAME),
        }
        Ok(())
    }

    /// With `level` 1, what stands in no component: one calendar is no list.
    fn write(&self, level: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, (name, member)) in self.members.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b"," } else { b"" });
            write_string(name, out);
            out.push(b':');
            match member {
                Member::Components(all) => match all.as_slice() {
                    [one] if level == 1 => one.write(level + 1, out),
                    several => list(several, out, |one, out| one.write(level + 1, out)),
                },
                Member::Properties(all) => properties(name, all, out),
            }
        }
        out.push(b'}');
    }
}

const SAME: &str = "a property and a component have the same name";

/// The properties of one name: its value, or a list of several.
fn properties(name: &str, all: &[CalendarProperty], out: &mut Vec<u8>) {
    match all {
        [one] => one.write(out),
        several if LISTS.contains(&name) && several.iter().all(|one| one.parameters.is_empty()) => {
            list(several, out, CalendarProperty::write_members);
        }
        several => list(several, out, CalendarProperty::write),
    }
}

fn list<T>(all: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (at, one) in all.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"," } else { b"" });
        write(one, out);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<String, String> {
        let text = String::from_utf8(unfold(text.as_bytes())).expect("UTF-8");
        let read = read(&text).map_err(|error| error.detail().to_owned())?;
        Ok(String::from_utf8(read.bytes().to_vec()).expect("UTF-8"))
    }

    #[test]
    fn names_are_keys_and_parameters_begin_with_a_sign() {
        let text = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nSUMMARY:Lunch\\, or\\nlater\\; C:\\\\x\r\n\
            DTSTART;TZID=Europe/Berlin:20260102T120000\r\nATTENDEE;CN=\"A; B: ^'C^'^\";ROLE=CHAIR:mailto:a@b.example\r\n\
            CATEGORIES:WORK,A\\,B\r\nCATEGORIES:FOOD\r\nEXDATE;VALUE=DATE:20260103,20260104\r\nDESCRIPTION:one\r\n  two\r\n\tthree\r\n\
            COMMENT:a\r\nCOMMENT:b\r\nURL:http://x.example/\\n\r\nX-A.B:1\r\n";
        assert_eq!(read_text(text).unwrap_err(), "not valid iCalendar: this is no property (unfolded line 14)");
        let text =
            text.replace("X-A.B", "X-A") + "BEGIN:VALARM\nTRIGGER:-PT15M\nEND:VALARM\nEND:VEVENT\nEND:VCALENDAR\n";
        assert_eq!(
            read_text(&text).unwrap(),
            concat!(
                r#"{"vcalendar":{"version":"2.0","vevent":[{"summary":"Lunch, or\nlater; C:\\x","#,
                r#""dtstart":{"@tzid":"Europe/Berlin","#,
                r##""#text":"20260102T120000"},"attendee":{"@cn":"A; B: \"C\"^","@role":"CHAIR","#text":"mailto:a@b.example"},"##,
                r#""categories":["WORK","A,B","FOOD"],"exdate":{"@value":"DATE","#,
                r##""#text":["20260103","20260104"]},"description":"one twothree","comment":["a","b"],"##,
                r#""url":"http://x.example/\\n","x-a":"1","valarm":[{"trigger":"-PT15M"}]}]}}"#
            )
        );
    }

    #[test]
    fn a_fold_may_stand_within_a_character() {
        let mut bytes = b"BEGIN:VCALENDAR\nX-N:caf\xc3".to_vec();
        bytes.extend_from_slice(b"\r\n \xa9\r\nEND:VCALENDAR");
        let text = String::from_utf8(unfold(&bytes)).expect("joined");
        assert_eq!(read(&text).expect("sound").bytes(), r#"{"vcalendar":{"x-n":"café"}}"#);
    }

    #[test]
    fn several_calendars_are_a_list_and_none_is_an_object() {
        let one = "BEGIN:VCALENDAR\nEND:VCALENDAR\n";
        assert_eq!(read_text(&one.repeat(2)).unwrap(), r#"{"vcalendar":[{},{}]}"#);
        assert_eq!(read_text(one).unwrap(), r#"{"vcalendar":{}}"#);
        assert_eq!(read_text("\n").unwrap(), "{}");
    }

    #[test]
    fn each_name_is_found_at_once_however_many_there_are() {
        let lines: String = (0..50_000).map(|number| format!("X{number}:1\n")).collect();
        let parts: String = (0..50_000).map(|number| format!("BEGIN:X{number}\nEND:X{number}\n")).collect();
        let parameters: String = (0..50_000).map(|number| format!(";X{number}=1")).collect();
        for inner in [lines, parts, format!("A{parameters}:1\n")] {
            let read = read_text(&format!("BEGIN:VCALENDAR\n{inner}END:VCALENDAR\n")).expect("a calendar");
            assert_eq!(read.matches("x49999\"").count(), 1);
        }
    }

    #[test]
    fn what_is_no_calendar_is_refused() {
        for (text, reason) in [
            ("hello", "this is no property (unfolded line 1)"),
            ("SUMMARY:x", "this property is in no component (unfolded line 1)"),
            ("BEGIN:VCALENDAR\nSUMMARY", "this is no property (unfolded line 2)"),
            ("BEGIN:VCALENDAR\nA;B=\"c:d", "this is no property (unfolded line 2)"),
            ("BEGIN:VCALENDAR\nEND:VEVENT", "this ends no component (unfolded line 2)"),
            ("END:VCALENDAR", "this ends no component (unfolded line 1)"),
            (
                "BEGIN:VCALENDAR\nVEVENT:x\nBEGIN:VEVENT\nEND:VEVENT",
                "a property and a component have the same name (unfolded line 4)",
            ),
            ("BEGIN:VCALENDAR", "a component does not end"),
        ] {
            assert_eq!(read_text(text).unwrap_err(), format!("not valid iCalendar: {reason}"), "{text}");
        }
        assert!(read_text(&"BEGIN:A\n".repeat(100_000)).unwrap_err().contains("nest too deep"));
    }
}
