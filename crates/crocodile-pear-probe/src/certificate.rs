//! The contents of a certificate (RFC 5280): its subject, its issuer, and when it is valid.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use crocodile_pear::unstable::runtime::calendar::Day;
use crocodile_pear_spec::visible::is_hidden;

/// Object identifiers, encoded: of names and of the one extension that is read.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The servers that it is for.
    pub names: Vec<String>,
    pub issuer: String,
    pub from: Day,
    pub until: Day,
}

impl Certificate {
    /// `None` if the bytes are not a certificate. A certificate may say anything, so hidden characters are replaced.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut signed = Der(Der(Der(der).content(SEQUENCE)?).content(SEQUENCE)?);
        signed.content(VERSION);
        signed.next()?; // its number
        signed.next()?; // the algorithm of the signature
        let issuer = signed.content(SEQUENCE)?;
        let mut times = Der(signed.content(SEQUENCE)?);
        let (from, until) = (day(times.next()?)?, day(times.next()?)?);
        let names = signed.find(|(tag, _)| *tag == EXTENSIONS).and_then(|(_, list)| alternative_names(list));
        let plain = |text: String| text.chars().map(|c| if is_hidden(c) { '?' } else { c }).collect();
        let names = names.unwrap_or_default().into_iter().map(plain).collect();
        Some(Certificate { names, issuer: plain(issuer_name(issuer)), from, until })
    }

    /// Whole days from now on; negative when it has expired.
    pub fn days_left(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / (24 * 60 * 60);
        self.until.number() - i64::try_from(now).unwrap_or(i64::MAX)
    }
}

fn issuer_name(name: &[u8]) -> String {
    let attributes = Der(name).flat_map(|(_, set)| Der(set)).filter_map(|(_, attribute)| {
        let mut attribute = Der(attribute);
        Some((attribute.next()?.1, attribute.next()?.1))
    });
    let attributes: Vec<_> = attributes.collect();
    let value = |wanted: &[u8]| attributes.iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| text(value));
    value(COMMON_NAME).or_else(|| value(ORGANIZATION)).unwrap_or_else(|| "an authority without a name".to_owned())
}

fn alternative_names(extensions: &[u8]) -> Option<Vec<String>> {
    let list = Der(extensions).content(SEQUENCE)?;
    let named = Der(list).map(|(_, extension)| Der(extension));
    let value = named.filter_map(|mut extension| {
        let known = extension.next()?.1 == ALTERNATIVE_NAMES;
        extension.find(|(tag, _)| known && *tag == OCTETS).map(|(_, value)| value)
    });
    let names = Der(value.into_iter().next()?).content(SEQUENCE)?;
    Some(Der(names).filter_map(|(tag, value)| alternative(tag, value)).collect())
}

fn alternative(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        DNS_NAME => Some(text(value)),
        IP_ADDRESS => {
            let four = <[u8; 4]>::try_from(value).map(IpAddr::from);
            four.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The day of a time in a certificate.
fn day((tag, time): (u8, &[u8])) -> Option<Day> {
    let digits = std::str::from_utf8(time).ok().filter(|time| time.is_ascii())?;
    let (year, rest) = match tag {
        // RFC 5280, 4.1.2.5.1
        UTC_TIME => {
            let year: i64 = digits.get(..2)?.parse().ok()?;
            (if year >= 50 { 1900 + year } else { 2000 + year }, digits.get(2..)?)
        }
        GENERALIZED_TIME => (digits.get(..4)?.parse().ok()?, digits.get(4..)?),
        _ => return None,
    };
    Some(Day { year, month: rest.get(..2)?.parse().ok()?, day: rest.get(2..4)?.parse().ok()? })
}

/// Elements of the Distinguished Encoding Rules (X.690), each as its tag and its content.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element if it has this tag; otherwise nothing is taken.
    fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        (self.0.first() == Some(&tag)).then(|| self.next())?.map(|(_, content)| content)
    }
}

impl<'a> Iterator for Der<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // No part of a handshake has a length of more than three bytes.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    fn der() -> Vec<u8> {
        let names = vec!["a.test".to_owned(), "*.b.test".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, "the\u{1b}authority");
        params.not_before = date_time_ymd(1999, 12, 31);
        params.not_after = date_time_ymd(2055, 2, 28);
        params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").der().to_vec()
    }

    #[test]
    fn names_issuer_and_days_are_read() {
        let read = Certificate::read(&der()).expect("a certificate");
        assert_eq!(read.names, ["a.test", "*.b.test", "127.0.0.1", "::1"]);
        assert_eq!(read.issuer, "the?authority");
        assert_eq!((read.from.to_string(), read.until.to_string()), ("1999-12-31".into(), "2055-02-28".into()));
    }

    #[test]
    fn what_is_none_does_no_harm() {
        let good = der();
        for end in 0..good.len() {
            Certificate::read(&good[..end]);
            let mut bad = good.clone();
            bad[end] ^= 0x81;
            Certificate::read(&bad);
        }
        assert_eq!(Certificate::read(b"no certificate"), None);
    }
}
