//! What a user says of a link of the machine: what it costs, and how much of it may be used.

use std::fmt;
use std::str::FromStr;

use crate::rate::Rate;

/// A rule about the link over an interface, or from a local address. As text: `wwan0:metered,rate=10Mbit,quota=5GB,weight=1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRule {
    /// The interface's name, or a local address.
    pub link: String,
    /// It costs money by the byte: a backup for the others.
    pub metered: bool,
    /// What may be sent over it, and received, in a second; in each direction.
    pub rate: Option<Rate>,
    /// How much may be sent and received over it in a month, bytes; then, it is a backup.
    pub quota: Option<u64>,
    /// The share of all data that it carries, beside the weights of others.
    pub weight: Option<u32>,
}

impl LinkRule {
    /// What a rule may say.
    pub const KEYS: [&str; 4] = ["metered", "rate", "quota", "weight"];
    /// The largest weight.
    pub const MOST: u32 = 1000;

    /// One that says nothing yet.
    pub const fn of(link: String) -> Self {
        Self {
            link,
            metered: false,
            rate: None,
            quota: None,
            weight: None,
        }
    }
}

impl FromStr for LinkRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "{text:?} is no rule for a link: expected is LINK:RULE,RULE... with {}, such as wwan0:metered,rate=10Mbit,quota=5GB",
                Self::KEYS.join(", ")
            )
        };
        // An IPv6 address has colons, and no rule has.
        let (link, rules) = text.rsplit_once(':').ok_or_else(wanted)?;
        if link.is_empty() {
            return Err(wanted());
        }
        let mut rule = Self::of(link.to_owned());
        for one in rules.split(',') {
            let (key, value) = one.split_once('=').unwrap_or((one, "true"));
            match key.trim() {
                "metered" => {
                    let value = value.trim().parse();
                    rule.metered =
                        value.map_err(|_| format!("{link}: metered is true or false"))?;
                }
                "rate" => rule.rate = Some(value.parse()?),
                "quota" => rule.quota = Some(size(value)?),
                "weight" => {
                    let weight = value.trim().parse();
                    let weight = weight
                        .ok()
                        .filter(|weight| (1..=Self::MOST).contains(weight));
                    let wrong = || format!("{link}: weight is a number from 1 to {}", Self::MOST);
                    rule.weight = Some(weight.ok_or_else(wrong)?);
                }
                _ => return Err(wanted()),
            }
        }
        Ok(rule)
    }
}

/// A number with a unit: `B`, `kB`, `MB`, `GB` or `TB`, which are powers of 1000, as mobile operators have them.
fn size(text: &str) -> Result<u64, String> {
    let wanted =
        || format!("{text:?} is no size: a number and B, kB, MB, GB or TB are expected, as in 5GB");
    let text = text.trim();
    let digits = text.find(|symbol: char| !symbol.is_ascii_digit() && symbol != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit.trim() {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return Err(wanted()),
    };
    let number: f64 = number.parse().map_err(|_| wanted())?;
    let bytes = number * factor;
    if !(1.0..=1e18).contains(&bytes) {
        return Err(wanted());
    }
    Ok(bytes as u64)
}

/// Bytes in the unit that fits.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        match units.into_iter().find(|(factor, _)| bytes >= *factor) {
            Some((factor, unit)) => {
                let text = format!("{:.1}", bytes / factor);
                write!(f, "{} {unit}", text.trim_end_matches(".0"))
            }
            None => write!(f, "{bytes} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_as_they_are_written() {
        let rule: LinkRule = "wwan0:metered,rate=10Mbit,quota=5GB,weight=3"
            .parse()
            .unwrap();
        assert_eq!((rule.link.as_str(), rule.metered), ("wwan0", true));
        assert_eq!(rule.rate.unwrap().bytes_per_second(), 1_250_000);
        assert_eq!((rule.quota, rule.weight), (Some(5_000_000_000), Some(3)));
        let rule: LinkRule = "fe80::1:metered=false".parse().unwrap();
        assert_eq!(rule, LinkRule::of("fe80::1".to_owned()));
        for text in [
            "wwan0",
            "wwan0:",
            ":metered",
            "wwan0:cheap",
            "wwan0:metered=maybe",
            "wwan0:rate=10",
            "wwan0:quota=5",
            "wwan0:quota=0B",
            "wwan0:weight=0",
            "wwan0:weight=1001",
        ] {
            assert!(text.parse::<LinkRule>().is_err(), "{text}");
        }
        let shown = [(5_000_000_000, "5 GB"), (1_500, "1.5 kB"), (7, "7 B")];
        for (bytes, text) in shown {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
