//! Tickets: all that a client needs to come to a server, as one word.

use std::net::{IpAddr, SocketAddr};

use bech32::{Bech32m, Hrp};

use crate::error::Error;
use crate::identity::Fingerprint;
use crate::user_key::{SECRET, UserSecret};

/// The version of what is in a ticket.
const VERSION: u8 = 1;
/// Addresses in a ticket, at most.
const ADDRESSES: usize = 8;
const NAME: u8 = 0;
const V4: u8 = 4;
const V6: u8 = 6;

/// Where a server is, how a client knows it, and by which secret the server knows the client. Whoever has it can use it.
///
/// As text, it is Bech32m (BIP 350): lower-case letters and digits, without those that look alike, with a checksum that finds up to four
/// wrong ones in 90 characters. A double click selects it, and capital letters are as good.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Where the server is, `HOST:PORT`: addresses or names.
    pub servers: Vec<String>,
    /// The server's certificate.
    pub fingerprint: Fingerprint,
    /// The user's secret.
    pub secret: UserSecret,
    /// What it is for, such as a file's name. May be empty.
    pub what: String,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Ticket");
        shown
            .field("servers", &self.servers)
            .field("what", &self.what);
        shown.finish_non_exhaustive()
    }
}

impl Ticket {
    /// As text that begins with the name of the program's tickets, such as `mpbond`.
    ///
    /// # Errors
    ///
    /// If it has no server or more than 8, or a text that is too long.
    pub fn encode(&self, kind: &str) -> Result<String, Error> {
        let wrong = |why: &str| Error::Setting(format!("no ticket can be made: {why}"));
        if self.servers.is_empty() || self.servers.len() > ADDRESSES {
            return Err(wrong("it has 1 to 8 addresses of the server"));
        }
        let mut bytes = vec![VERSION, self.servers.len() as u8];
        for server in &self.servers {
            if let Ok(address) = server.parse::<SocketAddr>() {
                match address.ip() {
                    IpAddr::V4(ip) => {
                        bytes.push(V4);
                        bytes.extend(ip.octets());
                    }
                    IpAddr::V6(ip) => {
                        bytes.push(V6);
                        bytes.extend(ip.octets());
                    }
                }
                bytes.extend(address.port().to_be_bytes());
            } else {
                let len = u8::try_from(server.len());
                let len = len.map_err(|_| wrong("a name has at most 255 bytes"))?;
                bytes.extend([NAME, len]);
                bytes.extend(server.as_bytes());
            }
        }
        bytes.extend(self.fingerprint.bytes());
        bytes.extend(self.secret.bytes());
        bytes.extend(self.what.as_bytes());
        let kind = Hrp::parse(kind).map_err(|error| wrong(&error.to_string()))?;
        bech32::encode::<Bech32m>(kind, &bytes).map_err(|error| wrong(&error.to_string()))
    }

    /// Whether a text is meant as a ticket of this kind.
    pub fn is_meant(text: &str, kind: &str) -> bool {
        let text = text.to_ascii_lowercase();
        text.strip_prefix(kind)
            .is_some_and(|rest| rest.starts_with('1'))
    }

    /// From its text. What is wrong is told without showing it.
    ///
    /// # Errors
    ///
    /// If it is none of this kind, or was not copied as it is.
    pub fn decode(text: &str, kind: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Setting(format!("the ticket makes no sense: {why}"));
        let (found, bytes) = decoded(text.trim())
            .ok_or_else(|| wrong("a letter is wrong or missing: copy it once more"))?;
        if found.to_lowercase() != kind {
            return Err(wrong("it is one of another program"));
        }
        let mut rest = bytes.as_slice();
        let ticket = Self::read(&mut rest).ok_or_else(|| wrong("it is of another version"))?;
        Ok(ticket)
    }

    fn read(rest: &mut &[u8]) -> Option<Self> {
        let [VERSION, count] = take(rest)? else {
            return None;
        };
        let mut servers = Vec::new();
        if count == 0 || usize::from(count) > ADDRESSES {
            return None;
        }
        for _ in 0..count {
            let [kind] = take(rest)?;
            servers.push(match kind {
                NAME => {
                    let [len] = take(rest)?;
                    let (name, after) = rest.split_at_checked(len.into())?;
                    *rest = after;
                    std::str::from_utf8(name).ok()?.to_owned()
                }
                V4 | V6 => {
                    let ip: IpAddr = match kind {
                        V4 => take::<4>(rest)?.into(),
                        _ => take::<16>(rest)?.into(),
                    };
                    SocketAddr::new(ip, u16::from_be_bytes(take(rest)?)).to_string()
                }
                _ => return None,
            });
        }
        Some(Self {
            servers,
            fingerprint: Fingerprint::from_bytes(take(rest)?),
            secret: UserSecret::from_bytes(take::<SECRET>(rest)?),
            what: std::str::from_utf8(rest).ok()?.to_owned(),
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

/// What a text has under the checksum of Bech32m, and no other.
fn decoded(text: &str) -> Option<(String, Vec<u8>)> {
    let checked = bech32::primitives::decode::CheckedHrpstring::new::<Bech32m>(text).ok()?;
    Some((checked.hrp().to_string(), checked.byte_iter().collect()))
}

/// A text as a QR code for a terminal: two rows of it in each line.
///
/// # Errors
///
/// If it is too long for one.
pub fn qr_code(text: &str) -> Result<String, Error> {
    // Capital letters and digits take less room.
    let made = fast_qr::QRBuilder::new(text.to_ascii_uppercase()).build();
    let made = made.map_err(|error| Error::Setting(format!("no QR code: {error:?}")))?;
    Ok(made.to_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            servers: ["192.0.2.1:4433", "[2001:db8::1]:1", "files.example:4433"]
                .map(str::to_owned)
                .to_vec(),
            fingerprint: "ab".repeat(32).parse().unwrap(),
            secret: UserSecret::from_bytes([7; SECRET]),
            what: "photos/été".to_owned(),
        }
    }

    #[test]
    fn a_ticket_is_one_word() {
        let text = ticket().encode("mpcp").unwrap();
        assert!(text.starts_with("mpcp1") && text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert!(Ticket::is_meant(&text, "mpcp") && !Ticket::is_meant("mpcp.example", "mpcp"));
        for same in [text.clone(), text.to_uppercase(), format!(" {text}\n")] {
            assert_eq!(Ticket::decode(&same, "mpcp").unwrap(), ticket());
        }
        let one = Ticket {
            servers: vec!["192.0.2.1:4433".to_owned()],
            what: String::new(),
            ..ticket()
        };
        let text = one.encode("mpbond").unwrap();
        assert!(text.len() <= 110, "{}", text.len());
        assert!(!format!("{one:?}").contains("7, 7"));
        assert!(qr_code(&text).unwrap().lines().count() > 10);
    }

    #[test]
    fn what_was_copied_wrong_is_found_and_not_shown() {
        let text = ticket().encode("mpcp").unwrap();
        for at in 5..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'q' { b'p' } else { b'q' };
            let other = String::from_utf8(other).unwrap();
            let why = Ticket::decode(&other, "mpcp").unwrap_err().to_string();
            assert!(
                why.contains("a letter is wrong") && !why.contains(&other),
                "{why}"
            );
            assert!(Ticket::decode(&text[..at], "mpcp").is_err());
        }
        let why = Ticket::decode(&text, "mpbond").unwrap_err().to_string();
        assert!(why.contains("another program"), "{why}");
    }

    #[test]
    fn what_is_in_it_is_read_with_care() {
        let kind = Hrp::parse("mpcp").unwrap();
        for bytes in [
            &[][..],
            &[1],
            &[2, 1],
            &[1, 0],
            &[1, 9],
            &[1, 1, 4, 1, 2],
            &[1, 1, 0, 200, 1],
            &[1, 1, 5],
        ] {
            let text = bech32::encode::<Bech32m>(kind, bytes).unwrap();
            assert!(Ticket::decode(&text, "mpcp").is_err(), "{bytes:?}");
        }
    }
}
