//! Times in UTC: as seconds since 1970, as a list of parts, and as text.

use crate::calendar::Day;
use crate::jq::eval::code::Named;
use crate::jq::value::bounded::Item;
use crate::jq::value::budget::charge;
use crate::jq::value::operators::{self, ItemR};
use crate::jq::value::runtime_error::{Fault, fail};
use crate::json::value::Value;

const DAY: i64 = 86_400;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Largest format, in bytes.
const LONG: usize = 4096;

pub const NATIVES: &[Named] = &[
    (("now", 0), |_, _| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(now.as_secs_f64().into())
    }),
    (("gmtime", 0), |it, _| gmtime(&it)),
    (("mktime", 0), |it, _| match &it.value {
        Value::List(_) => match Time::from_item(&it)? {
            Some(time) => Ok((time.seconds() as isize).into()),
            None => fail("mktime requires parsed datetime inputs"),
        },
        _ => fail("mktime requires array inputs"),
    }),
    (("strftime", 1), strftime),
    (("strptime", 1), strptime),
    (("fromdateiso8601", 0), |it, _| from_date(it)),
    (("fromdate", 1), from_format),
];

/// A time in its parts.
#[derive(Clone, Copy, Default)]
struct Time {
    year: i64,
    /// From 0.
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// From Sunday.
    weekday: i64,
    /// From 0.
    yearday: i64,
}

/// Days from 1970 to a date, whose month is from 0.
fn days(year: i64, month: i64, day: i64) -> i64 {
    Day { year, month: month + 1, day }.number()
}

impl Time {
    /// The time this many seconds after the start of 1970.
    fn at(seconds: i64) -> Self {
        let (number, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let Day { year, month, day } = Day::at(number);
        Time {
            year,
            month: month - 1,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: (number + 4).rem_euclid(7),
            yearday: number - days(year, 0, 1),
        }
    }

    fn seconds(&self) -> i64 {
        let days = days(self.year, self.month, 1) + self.day - 1;
        days * DAY + self.hour * 3600 + self.minute * 60 + self.second
    }

    /// The time from a list of parts; `None` if one is not a number. A missing part is 0; a missing year is 0 in C's
    /// counting, which is 1900.
    fn from_item(item: &Item) -> Result<Option<Self>, Fault> {
        let mut parts = [1900, 0i64, 0, 0, 0, 0, 0, 0];
        for (part, (_, item)) in parts.iter_mut().zip(operators::children(item)?) {
            let Value::Number(number) = &item.value else { return Ok(None) };
            let number = operators::float(number);
            if number.is_nan() {
                return Ok(None);
            }
            // Clamp to C's int, so that nothing overflows below.
            *part = number.clamp(-2_147_483_648.0, 2_147_483_647.0) as i64;
        }
        let [year, month, day, hour, minute, second, weekday, yearday] = parts;
        Ok(Some(Time { year, month, day, hour, minute, second, weekday, yearday }))
    }

    fn list(&self, fraction: f64) -> Item {
        let Time { year, month, day, hour, minute, second, weekday, yearday } = *self;
        let whole = |part: i64| Item::from(part as isize);
        let second = if fraction == 0.0 { whole(second) } else { Item::from(second as f64 + fraction) };
        let parts = [whole(year), whole(month), whole(day), whole(hour), whole(minute), second];
        parts.into_iter().chain([whole(weekday), whole(yearday)]).collect()
    }
}

fn gmtime(it: &Item) -> ItemR {
    let Value::Number(number) = &it.value else { return fail("gmtime() requires numeric inputs") };
    let seconds = operators::float(number);
    // C fails for years that do not fit its int.
    if !(-6.7e16..6.7e16).contains(&seconds) {
        return fail("error converting number of seconds since epoch to datetime");
    }
    // jq truncates the seconds, but takes the fraction from the floor.
    Ok(Time::at(seconds as i64).list(seconds - seconds.floor()))
}

fn strftime(it: Item, arguments: &[Item]) -> ItemR {
    let parts = match &it.value {
        Value::Number(_) => gmtime(&it)?,
        Value::List(_) => it,
        _ => return fail("strftime/1 requires parsed datetime inputs"),
    };
    let Value::Text(format) = &arguments[0].value else { return fail("strftime/1 requires a string format") };
    let Some(time) = Time::from_item(&parts)? else { return fail("strftime/1 requires parsed datetime inputs") };
    if format.len() > LONG {
        return fail("strftime/1: the format is too long");
    }
    charge(1 + format.len());
    let mut out = String::new();
    write(&Time::at(time.seconds()), &String::from_utf8_lossy(format), &mut out);
    Ok(out.into())
}

/// How a number is padded to its width.
#[derive(Clone, Copy)]
enum Pad {
    Zero,
    Space,
    None,
}

fn put(number: i64, width: usize, pad: Pad, out: &mut String) {
    match pad {
        Pad::Zero => *out += &format!("{number:0width$}"),
        Pad::Space => *out += &format!("{number:width$}"),
        Pad::None => *out += &number.to_string(),
    }
}

fn write(time: &Time, format: &str, out: &mut String) {
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let before = rest.as_str();
        let mut given = None;
        let mut letter = rest.next();
        while let Some(flag @ ('-' | '_' | '0' | 'E' | 'O')) = letter {
            match flag {
                '-' => given = Some(Pad::None),
                '_' => given = Some(Pad::Space),
                '0' => given = Some(Pad::Zero),
                _ => {}
            }
            letter = rest.next();
        }
        if !letter.is_some_and(|letter| directive(time, letter, given, out)) {
            out.push('%');
            rest = before.chars();
        }
    }
}

/// Writes the part that a letter selects, in C's locale; `false` if the letter is unknown.
fn directive(time: &Time, letter: char, given: Option<Pad>, out: &mut String) -> bool {
    let zero = given.unwrap_or(Pad::Zero);
    let space = given.unwrap_or(Pad::Space);
    let twelve = if time.hour % 12 == 0 { 12 } else { time.hour % 12 };
    let name = |names: &[&str], at: i64| {
        usize::try_from(at).ok().and_then(|at| names.get(at).copied()).unwrap_or("?").to_owned()
    };
    match letter {
        'Y' => put(time.year, 1, Pad::None, out),
        'C' => put(time.year.div_euclid(100), 2, zero, out),
        'y' => put(time.year.rem_euclid(100), 2, zero, out),
        'm' => put(time.month + 1, 2, zero, out),
        'd' => put(time.day, 2, zero, out),
        'e' => put(time.day, 2, space, out),
        'H' => put(time.hour, 2, zero, out),
        'k' => put(time.hour, 2, space, out),
        'I' => put(twelve, 2, zero, out),
        'l' => put(twelve, 2, space, out),
        'M' => put(time.minute, 2, zero, out),
        'S' => put(time.second, 2, zero, out),
        'j' => put(time.yearday + 1, 3, zero, out),
        'u' => put(if time.weekday == 0 { 7 } else { time.weekday }, 1, Pad::None, out),
        'w' => put(time.weekday, 1, Pad::None, out),
        'U' => put((time.yearday + 7 - time.weekday) / 7, 2, zero, out),
        'W' => put((time.yearday + 7 - (time.weekday + 6) % 7) / 7, 2, zero, out),
        'V' => put(week(time).1, 2, zero, out),
        'G' => put(week(time).0, 1, Pad::None, out),
        'g' => put(week(time).0.rem_euclid(100), 2, zero, out),
        's' => put(time.seconds(), 1, Pad::None, out),
        'a' => out.push_str(&name(&DAYS, time.weekday)[..3]),
        'A' => out.push_str(&name(&DAYS, time.weekday)),
        'b' | 'h' => out.push_str(&name(&MONTHS, time.month)[..3]),
        'B' => out.push_str(&name(&MONTHS, time.month)),
        'p' => out.push_str(if time.hour < 12 { "AM" } else { "PM" }),
        'P' => out.push_str(if time.hour < 12 { "am" } else { "pm" }),
        'Z' => out.push_str("UTC"),
        'z' => out.push_str("+0000"),
        'n' => out.push('\n'),
        't' => out.push('\t'),
        '%' => out.push('%'),
        'c' => write(time, "%a %b %e %H:%M:%S %Y", out),
        'D' | 'x' => write(time, "%m/%d/%y", out),
        'F' => write(time, "%Y-%m-%d", out),
        'T' | 'X' => write(time, "%H:%M:%S", out),
        'R' => write(time, "%H:%M", out),
        'r' => write(time, "%I:%M:%S %p", out),
        _ => return false,
    }
    true
}

/// The year and week of ISO 8601.
fn week(time: &Time) -> (i64, i64) {
    let monday = (time.weekday + 6) % 7;
    let week = (time.yearday - monday + 10) / 7;
    let weeks = |year: i64| {
        let first = (days(year, 0, 1) + 4).rem_euclid(7);
        let leap = days(year + 1, 0, 1) - days(year, 0, 1) == 366;
        if first == 4 || leap && first == 3 { 53 } else { 52 }
    };
    match week {
        0 => (time.year - 1, weeks(time.year - 1)),
        week if week > weeks(time.year) => (time.year + 1, 1),
        week => (time.year, week),
    }
}

fn strptime(it: Item, arguments: &[Item]) -> ItemR {
    let (Value::Text(text), Value::Text(format)) = (&it.value, &arguments[0].value) else {
        return fail("strptime/1 requires string inputs and arguments");
    };
    charge(1 + text.len().min(LONG) + format.len());
    if format.len() > LONG || text.len() > LONG {
        return fail("strptime/1: the text or the format is too long");
    }
    let (text, format) = (String::from_utf8_lossy(text), String::from_utf8_lossy(format));
    let mut read = Read { time: Time { year: 1900, ..Time::default() }, rest: &text, ..Read::default() };
    let misfit = || format!("date \"{text}\" does not match format \"{format}\"");
    let fits = read.format(&format).is_some() && (read.rest.is_empty() || read.rest.starts_with(char::is_whitespace));
    if !fits {
        let message = misfit();
        return Err(Fault { value: message.into(), shown: Some("the date does not match its format".to_owned()) });
    }
    let list = read.finish().list(0.0);
    if read.rest.is_empty() {
        return Ok(list);
    }
    operators::add(list, Item::list(vec![Item::from(read.rest.to_owned())]))
}

/// The seconds of a date (RFC 3339), with its offset and its fraction.
fn from_date(it: Item) -> ItemR {
    if let Value::Text(text) = &it.value
        && text.len() <= 64
        && let Some((seconds, fraction)) = std::str::from_utf8(text).ok().and_then(rfc3339)
    {
        charge(1 + text.len());
        return Ok(if fraction == 0.0 { Item::from(seconds as isize) } else { Item::from(seconds as f64 + fraction) });
    }
    // Any other text, and what is none, as jq has it.
    let list = strptime(it, &[Item::from("%Y-%m-%dT%H:%M:%SZ".to_owned())])?;
    match Time::from_item(&list)? {
        Some(time) => Ok((time.seconds() as isize).into()),
        None => fail("mktime requires parsed datetime inputs"),
    }
}

/// Whole seconds and the fraction of a date and a time.
fn rfc3339(text: &str) -> Option<(i64, f64)> {
    let mut read = Read { rest: text, ..Read::default() };
    for (digits, least, most, behind) in [(4, 0, 9999, "-"), (2, 1, 12, "-"), (2, 1, 31, "")] {
        let part = read.exactly(digits, least, most)?;
        match (digits, behind) {
            (4, _) => read.time.year = part,
            (_, "-") => read.time.month = part - 1,
            _ => read.time.day = part,
        }
        read.rest = read.rest.strip_prefix(behind)?;
    }
    let last = days(read.time.year + read.time.month / 11, (read.time.month + 1) % 12, 1)
        - days(read.time.year, read.time.month, 1);
    read.rest = read.rest.strip_prefix(['T', 't', ' ']).filter(|_| read.time.day <= last)?;
    read.time.hour = read.exactly(2, 0, 23)?;
    read.rest = read.rest.strip_prefix(':')?;
    read.time.minute = read.exactly(2, 0, 59)?;
    read.rest = read.rest.strip_prefix(':')?;
    read.time.second = read.exactly(2, 0, 60)?;
    let mut fraction = 0.0;
    if let Some(digits) = read.rest.strip_prefix('.') {
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        fraction = format!("0.{}", &digits[..length]).parse().ok().filter(|_| length > 0)?;
        read.rest = &digits[length..];
    }
    let offset = match read.rest {
        "Z" | "z" => {
            read.rest = "";
            0
        }
        rest => {
            let sign = if rest.starts_with('+') { 1 } else { -1 };
            read.rest = rest.strip_prefix(['+', '-'])?;
            let hours = read.exactly(2, 0, 23)?;
            read.rest = read.rest.strip_prefix(':')?;
            let minutes = read.exactly(2, 0, 59)?;
            sign * (hours * 3600 + minutes * 60)
        }
    };
    read.rest.is_empty().then(|| (read.time.seconds() - offset, fraction))
}

/// The seconds of a date in this format, with the offset that `%z` reads.
fn from_format(it: Item, arguments: &[Item]) -> ItemR {
    let (Value::Text(text), Value::Text(format)) = (&it.value, &arguments[0].value) else {
        return fail("fromdate/1 requires string inputs and arguments");
    };
    charge(1 + text.len().min(LONG) + format.len());
    if format.len() > LONG || text.len() > LONG {
        return fail("fromdate/1: the text or the format is too long");
    }
    let (text, format) = (String::from_utf8_lossy(text), String::from_utf8_lossy(format));
    let mut read = Read { time: Time { year: 1900, ..Time::default() }, rest: &text, ..Read::default() };
    if read.format(&format).is_none() || !read.rest.trim().is_empty() {
        let message = format!("date \"{text}\" does not match format \"{format}\"");
        return Err(Fault { value: message.into(), shown: Some("the date does not match its format".to_owned()) });
    }
    Ok(Item::from((read.finish().seconds() - read.offset) as isize))
}

/// A text that is being parsed by a format.
#[derive(Default)]
struct Read<'t> {
    time: Time,
    rest: &'t str,
    century: Option<i64>,
    of_century: Option<i64>,
    afternoon: Option<bool>,
    yearday: Option<i64>,
    weekday: Option<i64>,
    seconds: Option<i64>,
    /// The seconds that the time is before UTC's.
    offset: i64,
}

impl Read<'_> {
    /// A number of so many digits, within bounds.
    fn exactly(&mut self, digits: usize, least: i64, most: i64) -> Option<i64> {
        let number = self.rest.get(..digits).filter(|number| number.bytes().all(|digit| digit.is_ascii_digit()))?;
        self.rest = &self.rest[digits..];
        number.parse().ok().filter(|number| (least..=most).contains(number))
    }

    fn format(&mut self, format: &str) -> Option<()> {
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            match letter {
                letter if letter.is_whitespace() => self.rest = self.rest.trim_start(),
                '%' => {
                    let mut letter = letters.next()?;
                    while matches!(letter, '-' | '_' | '0' | '^' | '#' | 'E' | 'O') {
                        letter = letters.next()?;
                    }
                    self.directive(letter)?;
                }
                letter => self.rest = self.rest.strip_prefix(letter)?,
            }
        }
        Some(())
    }

    /// A number of at most this many digits, within bounds.
    fn number(&mut self, digits: usize, least: i64, most: i64) -> Option<i64> {
        self.rest = self.rest.trim_start();
        let length = self.rest.bytes().take(digits).take_while(u8::is_ascii_digit).count();
        let number = self.rest[..length].parse().ok()?;
        self.rest = &self.rest[length..];
        (least..=most).contains(&number).then_some(number)
    }

    /// A name, in full or as its first three letters.
    fn name(&mut self, names: &[&str]) -> Option<i64> {
        let starts = |name: &str| self.rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        let full = names.iter().position(|name| starts(name)).map(|at| (at, names[at].len()));
        let (at, length) = full.or_else(|| names.iter().position(|name| starts(&name[..3])).map(|at| (at, 3)))?;
        self.rest = &self.rest[length..];
        Some(at as i64)
    }

    fn directive(&mut self, letter: char) -> Option<()> {
        match letter {
            'Y' => self.time.year = self.number(4, 0, 9999)?,
            'C' => self.century = Some(self.number(2, 0, 99)?),
            'y' => {
                let year = self.number(2, 0, 99)?;
                self.of_century = Some(year);
                self.time.year = if year < 69 { 2000 + year } else { 1900 + year };
            }
            'm' => self.time.month = self.number(2, 1, 12)? - 1,
            'd' | 'e' => self.time.day = self.number(2, 1, 31)?,
            'H' | 'k' => self.time.hour = self.number(2, 0, 23)?,
            'I' | 'l' => self.time.hour = self.number(2, 1, 12)? % 12,
            'M' => self.time.minute = self.number(2, 0, 59)?,
            'S' => self.time.second = self.number(2, 0, 61)?,
            'j' => self.yearday = Some(self.number(3, 1, 366)? - 1),
            'u' => self.weekday = Some(self.number(1, 1, 7)? % 7),
            'w' => self.weekday = Some(self.number(1, 0, 6)?),
            'U' | 'W' | 'V' | 'g' => drop(self.number(2, 0, 99)?),
            'G' => drop(self.number(4, 0, 9999)?),
            's' => self.seconds = Some(self.number(18, 0, i64::MAX)?),
            'a' | 'A' => self.weekday = Some(self.name(&DAYS)?),
            'b' | 'B' | 'h' => self.time.month = self.name(&MONTHS)?,
            'p' | 'P' => {
                let half = self.rest.get(..2)?;
                self.afternoon = Some(match () {
                    () if half.eq_ignore_ascii_case("am") => false,
                    () if half.eq_ignore_ascii_case("pm") => true,
                    () => return None,
                });
                self.rest = &self.rest[2..];
            }
            'Z' => self.rest = self.rest.trim_start().trim_start_matches(|character: char| !character.is_whitespace()),
            'z' => self.zone()?,
            'n' | 't' => self.rest = self.rest.trim_start(),
            '%' => self.rest = self.rest.strip_prefix('%')?,
            'D' | 'x' => self.format("%m/%d/%y")?,
            'F' => self.format("%Y-%m-%d")?,
            'T' | 'X' => self.format("%H:%M:%S")?,
            'R' => self.format("%H:%M")?,
            'r' => self.format("%I:%M:%S %p")?,
            'c' => self.format("%a %b %e %H:%M:%S %Y")?,
            _ => return None,
        }
        Some(())
    }

    /// A time zone as an offset from UTC. `strptime` ignores it, as jq does.
    fn zone(&mut self) -> Option<()> {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix(['Z', 'z']) {
            self.rest = rest;
            return Some(());
        }
        let sign = if self.rest.starts_with('-') { -1 } else { 1 };
        self.rest = self.rest.strip_prefix(['+', '-'])?;
        self.offset = sign * self.number(2, 0, 24)? * 3600;
        if let Some(rest) = self.rest.strip_prefix(':') {
            self.rest = rest;
        }
        if self.rest.starts_with(|digit: char| digit.is_ascii_digit()) {
            self.offset += sign * self.number(2, 0, 59)? * 60;
        }
        Some(())
    }

    /// The time, with the parts that follow from others. Without a day, jq sets the weekday to 8 and the day of the
    /// year to 367.
    fn finish(&self) -> Time {
        if let Some(seconds) = self.seconds {
            return Time::at(seconds);
        }
        let mut time = self.time;
        if let Some(century) = self.century {
            time.year = century * 100 + self.of_century.unwrap_or(time.year % 100);
        }
        if self.afternoon == Some(true) {
            time.hour += 12;
        }
        if let (Some(yearday), 0) = (self.yearday, time.day) {
            let day = Time::at((days(time.year, 0, 1) + yearday) * DAY);
            (time.month, time.day) = (day.month, day.day);
        }
        if time.day == 0 {
            time.weekday = self.weekday.unwrap_or(8);
            time.yearday = self.yearday.unwrap_or(367);
            return time;
        }
        let day = days(time.year, time.month, time.day);
        time.weekday = (day + 4).rem_euclid(7);
        time.yearday = day - days(time.year, 0, 1);
        time
    }
}
