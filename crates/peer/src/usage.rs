//! How much of a link was used in this month: counted, and kept in a file over restarts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::identity::{identity_folder, read};
use crate::link_rule::Size;

/// The file's name.
const FILE: &str = "links.toml";

/// What links carried in this month (UTC), by their names.
#[derive(Debug)]
pub struct Usage {
    path: PathBuf,
    months: Months,
    is_new: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Months {
    #[serde(default)]
    links: BTreeMap<String, Month>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Month {
    month: String,
    bytes: u64,
}

impl Usage {
    /// That of the program of this name: `links.toml` in its folder of the user's data.
    ///
    /// # Errors
    ///
    /// If there is no such folder, or the file cannot be read.
    pub fn of(program: &str) -> Result<Self, Error> {
        Self::at(&identity_folder(program)?.join(FILE))
    }

    /// That of a file, which need not be there yet.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or makes no sense.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let months = match path.exists() {
            false => Months::default(),
            true => {
                let text = read(path)?;
                let text = String::from_utf8_lossy(&text);
                toml::from_str(&text).map_err(|error| Error::file(path, error))?
            }
        };
        Ok(Self {
            path: path.to_owned(),
            months,
            is_new: false,
        })
    }

    /// So many bytes more, at this time. What was counted in another month is forgotten.
    pub fn add(&mut self, link: &str, bytes: u64, now: SystemTime) {
        let month = month_of(now);
        let entry = self.months.links.entry(link.to_owned());
        let entry = entry.or_insert_with(|| Month {
            month: month.clone(),
            bytes: 0,
        });
        if entry.month != month {
            *entry = Month { month, bytes: 0 };
        }
        entry.bytes = entry.bytes.saturating_add(bytes);
        self.is_new = true;
    }

    /// What a link carried in the month of this time, bytes.
    pub fn used(&self, link: &str, now: SystemTime) -> u64 {
        let entry = self.months.links.get(link);
        let entry = entry.filter(|entry| entry.month == month_of(now));
        entry.map_or(0, |entry| entry.bytes)
    }

    /// Writes what is new: as a whole, or not at all.
    ///
    /// # Errors
    ///
    /// If that fails; it is tried again the next time.
    pub fn keep(&mut self) -> Result<(), Error> {
        if !self.is_new {
            return Ok(());
        }
        let wrong = |error: &dyn std::fmt::Display| Error::file(&self.path, error);
        let text = toml::to_string(&self.months).map_err(|error| wrong(&error))?;
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(|error| wrong(&error))?;
        }
        let made = self.path.with_extension("toml.new");
        let written = fs::write(&made, text).and_then(|()| fs::rename(&made, &self.path));
        written.map_err(|error| wrong(&error))?;
        self.is_new = false;
        Ok(())
    }
}

/// The month of a time, `2026-11`.
fn month_of(now: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(now).to_string();
    text.chars().take(7).collect()
}

/// A number of bytes as users read it, such as `1.5 GB`.
pub fn size_text(bytes: u64) -> String {
    Size(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(days: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400)
    }

    #[test]
    fn a_month_is_kept_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data").join(FILE);
        let mut usage = Usage::at(&path).unwrap();
        usage.keep().unwrap();
        assert!(!path.exists());
        usage.add("wwan0", 5, at(0));
        usage.add("wwan0", 6, at(30));
        usage.add("eth0", 1, at(30));
        usage.keep().unwrap();
        let mut again = Usage::at(&path).unwrap();
        assert_eq!(again.used("wwan0", at(30)), 11);
        // The first of February.
        assert_eq!(again.used("wwan0", at(31)), 0);
        again.add("wwan0", 2, at(31));
        assert_eq!(again.used("wwan0", at(31)), 2);
        assert_eq!(again.used("eth0", at(30)), 1);
        fs::write(&path, "links = 3").unwrap();
        assert!(Usage::at(&path).is_err());
    }
}
