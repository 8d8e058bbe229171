//! Who may come to a server by name, from a file that may change while it runs.
//!
//! ```toml
//! [users.alice]
//! key = "3b6a27bc..."                # of her secret, as `invite` writes it
//! expires = "2027-01-01T00:00:00Z"   # the rest may be missing: without end, on any number of devices, without a limit
//! devices = 1
//! ticket-until = "2026-12-01T00:00:00Z"
//! rate = "10Mbit"
//! connections = 4
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tokio::sync::watch;

use crate::error::Error;
use crate::identity::read;
use crate::rate::{Rate, Throttle};
use crate::user_key::{UserKey, private};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Devices of a user whose ticket has a time and no number.
const DEVICES: u32 = 64;
/// The most characters of a name.
const LONGEST: usize = 64;

/// What a user may do with a server of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// List and get.
    Get,
    /// Put files, folders and links; make folders.
    Put,
    /// Remove and rename.
    Remove,
}

impl Right {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Remove => "remove",
        }
    }
}

impl std::str::FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Get, Self::Put, Self::Remove];
        let found = all.into_iter().find(|right| right.name() == text);
        found.ok_or_else(|| format!("{text:?} is no right: there are get, put and remove"))
    }
}

/// What a server grants a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user's name: letters, digits, `.`, `_`, `@` and `-`, at most 64.
    pub name: String,
    /// Of the user's secret.
    pub key: UserKey,
    /// When it ends.
    pub expires: Option<SystemTime>,
    /// On how many devices it is good: the first ones that come.
    pub devices: Option<u32>,
    /// Until when devices are taken that did not come before; 64 of them, unless there is another number.
    pub ticket_until: Option<SystemTime>,
    /// How fast data may come from the user, and how fast it may go there.
    pub rate: Option<Rate>,
    /// How many connections the user may have at a time.
    pub connections: Option<u32>,
    /// What the user may reach, instead of what all may; for proxies.
    pub allow: Option<Vec<String>>,
    /// The user's folder, below the one that is served; for servers of files.
    pub folder: Option<PathBuf>,
    /// What the user may do, instead of what all may; for servers of files.
    pub rights: Option<Vec<Right>>,
}

impl User {
    /// One without limits.
    pub fn new(name: impl Into<String>, key: UserKey) -> Self {
        Self {
            name: name.into(),
            key,
            expires: None,
            devices: None,
            ticket_until: None,
            rate: None,
            connections: None,
            allow: None,
            folder: None,
            rights: None,
        }
    }
}

/// A user as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    key: String,
    expires: Option<toml::Value>,
    devices: Option<u32>,
    ticket_until: Option<toml::Value>,
    rate: Option<String>,
    connections: Option<u32>,
    allow: Option<Vec<String>>,
    folder: Option<PathBuf>,
    rights: Option<Vec<Right>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entries {
    #[serde(default)]
    users: BTreeMap<String, Entry>,
}

impl Entry {
    fn user(self, name: &str) -> Result<User, String> {
        check_name(name)?;
        Ok(User {
            name: name.to_owned(),
            key: self.key.parse()?,
            expires: time("expires", self.expires)?,
            devices: self.devices,
            ticket_until: time("ticket-until", self.ticket_until)?,
            rate: self.rate.map(|rate| rate.parse()).transpose()?,
            connections: self.connections,
            allow: self.allow,
            folder: self.folder,
            rights: self.rights,
        })
    }
}

fn time(key: &str, value: Option<toml::Value>) -> Result<Option<SystemTime>, String> {
    let time = value.map(|time| {
        let text = match &time {
            toml::Value::String(text) => text.clone(),
            time => time.to_string(),
        };
        humantime::parse_rfc3339_weak(&text)
            .map_err(|_| format!("{key}: {text:?} is no time, as in \"2027-01-01T00:00:00Z\""))
    });
    time.transpose()
}

fn check_name(name: &str) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_good) {
        return Err(format!(
            "{name:?} is no name of a user: letters, digits, `.`, `_`, `@` and `-` are taken, at most {LONGEST}"
        ));
    }
    Ok(())
}

/// What is checked of a user beyond what all programs have.
pub type Check = fn(&User) -> Result<(), String>;

/// The users of a server.
#[derive(Debug)]
pub struct Users {
    /// The file; without one, they do not change.
    path: Option<PathBuf>,
    check: Check,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Of the file as it was read.
    stamp: Option<Stamp>,
    users: BTreeMap<UserKey, Arc<User>>,
    /// The devices of those that are good on a number of them only.
    devices: BTreeMap<UserKey, BTreeSet<UserKey>>,
    live: BTreeMap<UserKey, Arc<Live>>,
}

/// By which a file that was changed is known.
type Stamp = (SystemTime, u64, u64);

fn stamp(path: &Path) -> std::io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Ok((metadata.modified()?, metadata.len(), number))
}

/// What all connections of a user share.
#[derive(Debug)]
struct Live {
    connections: AtomicU32,
    from: Throttle,
    to: Throttle,
}

impl Live {
    fn new(rate: Option<Rate>) -> Self {
        Self {
            connections: AtomicU32::new(0),
            from: Throttle::new(rate),
            to: Throttle::new(rate),
        }
    }
}

fn devices_file(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".devices");
    name.into()
}

impl Users {
    /// Those of a file. `check` judges what only this program knows.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or makes no sense.
    pub fn open(path: &Path, check: Check) -> Result<Arc<Self>, Error> {
        let users = Self {
            path: Some(path.to_owned()),
            check,
            state: Mutex::default(),
            changed: watch::Sender::default(),
        };
        users.reload()?;
        Ok(Arc::new(users))
    }

    /// Those that are given, which do not change.
    pub fn these(given: impl IntoIterator<Item = User>) -> Arc<Self> {
        let users = given.into_iter().map(|user| (user.key, Arc::new(user)));
        Arc::new(Self {
            path: None,
            check: |_| Ok(()),
            state: Mutex::new(State {
                users: users.collect(),
                ..State::default()
            }),
            changed: watch::Sender::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again. Users that are gone lose their connections, those that are left keep them.
    ///
    /// # Errors
    ///
    /// If it cannot be read or makes no sense: all stays as it was.
    pub fn reload(&self) -> Result<(), Error> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let now = stamp(path).ok();
        let found = load(path, self.check);
        let mut state = self.state();
        // One that is wrong is told once.
        state.stamp = now;
        let found = found?;
        let devices = devices_file(path);
        state.devices = devices_of(&devices)?;
        for user in found.values() {
            if let Some(live) = state.live.get(&user.key) {
                live.from.set(user.rate);
                live.to.set(user.rate);
            }
        }
        state.live.retain(|key, _| found.contains_key(key));
        state.users = found;
        drop(state);
        self.changed.send_replace(());
        Ok(())
    }

    /// Reads the file again if it was changed.
    fn refresh(&self) {
        let Some(path) = &self.path else { return };
        if stamp(path).ok() == self.state().stamp {
            return;
        }
        match self.reload() {
            Ok(()) => crate::log!("the users are read again: {}", self.state().users.len()),
            Err(error) => crate::log!("the users stay as they are: {error}"),
        }
    }

    /// Follows the file, for as long as it is polled.
    pub async fn follow(&self) {
        if self.path.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(LOOK).await;
            self.refresh();
        }
    }

    /// Lets a user in, who has shown by signatures over `message` that the secrets of `key` and `device` are there. May wait for the disk.
    pub(crate) fn admit(
        self: &Arc<Self>,
        key: UserKey,
        device: UserKey,
        is_proven: impl FnOnce() -> bool,
    ) -> Result<Admitted, String> {
        // One that was added a moment ago.
        self.refresh();
        let user = self.state().users.get(&key).cloned();
        let user = user.filter(|_| is_proven());
        let user = user.ok_or("wrong token, or one that was revoked")?;
        if user.expires.is_some_and(|at| at <= SystemTime::now()) {
            return Err("the time of this user is over".to_owned());
        }
        let mut state = self.state();
        let most = user.devices.or_else(|| user.ticket_until.map(|_| DEVICES));
        if let Some(most) = most {
            let devices = state.devices.entry(key).or_default();
            if !devices.contains(&device) {
                if user.ticket_until.is_some_and(|at| at <= SystemTime::now()) {
                    return Err("this ticket has expired".to_owned());
                }
                if devices.len() >= most as usize {
                    return Err(format!(
                        "this ticket was used already, and is good on {most} {} only",
                        if most == 1 { "device" } else { "devices" }
                    ));
                }
                // What is not written is not remembered: another device could use it after the next start.
                if let Some(path) = &self.path {
                    remember(&devices_file(path), key, device).map_err(|error| {
                        crate::log!("the device of {} cannot be kept: {error}", user.name);
                        "the server cannot keep who uses this ticket".to_owned()
                    })?;
                }
                devices.insert(device);
            }
        }
        let live = state
            .live
            .entry(key)
            .or_insert_with(|| Arc::new(Live::new(user.rate)));
        let live = Arc::clone(live);
        let before = live.connections.fetch_add(1, Ordering::Relaxed);
        let admitted = Admitted {
            key,
            name: user.name.as_str().into(),
            users: Arc::clone(self),
            live,
        };
        drop(state);
        if user.connections.is_some_and(|most| before >= most) {
            return Err("too many connections of this user".to_owned());
        }
        Ok(admitted)
    }
}

fn load(path: &Path, check: Check) -> Result<BTreeMap<UserKey, Arc<User>>, Error> {
    let text = read(path)?;
    let text = String::from_utf8(text).map_err(|_| Error::file(path, "not UTF-8"))?;
    let entries: Entries = toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        Error::file(path, format!("line {line}: {}", error.message()))
    })?;
    let mut users: BTreeMap<UserKey, Arc<User>> = BTreeMap::new();
    for (name, entry) in entries.users {
        let wrong = |why: String| Error::file(path, format!("users.{name}: {why}"));
        let user = entry.user(&name).map_err(wrong)?;
        check(&user).map_err(wrong)?;
        if let Some(other) = users.get(&user.key) {
            return Err(wrong(format!("{} has the same key", other.name)));
        }
        users.insert(user.key, Arc::new(user));
    }
    Ok(users)
}

/// Lines of a user's key and a device's.
fn devices_of(path: &Path) -> Result<BTreeMap<UserKey, BTreeSet<UserKey>>, Error> {
    let mut found: BTreeMap<UserKey, BTreeSet<UserKey>> = BTreeMap::new();
    if !path.exists() {
        return Ok(found);
    }
    let text = read(path)?;
    for line in String::from_utf8_lossy(&text).lines() {
        // The last line may be cut off by the end of the machine; its device was not welcomed.
        let Some((Ok(key), Ok(device))) = line
            .split_once(' ')
            .map(|(key, device)| (key.parse(), device.parse()))
        else {
            continue;
        };
        found.entry(key).or_default().insert(device);
    }
    Ok(found)
}

fn remember(path: &Path, key: UserKey, device: UserKey) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // After a line that was cut off, a new one begins.
    file.write_all(format!("\n{key} {device}\n").as_bytes())?;
    file.sync_data()
}

/// A user who was let in: one connection, until it is dropped.
#[derive(Debug)]
pub struct Admitted {
    key: UserKey,
    name: Arc<str>,
    users: Arc<Users>,
    live: Arc<Live>,
}

impl Admitted {
    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the user is granted now; `None` after it was revoked.
    pub fn user(&self) -> Option<Arc<User>> {
        self.users.state().users.get(&self.key).cloned()
    }

    /// Keeps what comes from the user to its rate.
    pub fn from(&self) -> &Throttle {
        &self.live.from
    }

    /// Keeps what goes to the user to its rate.
    pub fn to(&self) -> &Throttle {
        &self.live.to
    }

    /// Waits until the user has no right to be here any more, and says why.
    pub async fn ended(&self) -> &'static str {
        let mut changes = self.users.changed.subscribe();
        loop {
            let Some(user) = self.user() else {
                return "this token was revoked";
            };
            let left = user.expires.map(|at| {
                let left = at.duration_since(SystemTime::now());
                left.unwrap_or_default()
            });
            let expired = async {
                match left {
                    // Clocks are set: the time is looked at again.
                    Some(left) => tokio::time::sleep(left.min(Duration::from_secs(60))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changes.changed() => {}
                () = expired => {
                    if user.expires.is_some_and(|at| at <= SystemTime::now()) {
                        return "the time of this user is over";
                    }
                }
            }
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.live.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds a user to a file, which is made if there is none. All else in it stays, comments too.
///
/// # Errors
///
/// If the file cannot be read or written, or has a user of this name.
pub fn add(path: &Path, user: &User) -> Result<(), Error> {
    check_name(&user.name).map_err(Error::Setting)?;
    change(path, |users| {
        if users.contains_key(&user.name) {
            let why = format!("there is a user {} already: revoke it first", user.name);
            return Err(Error::file(path, why));
        }
        let mut entry = toml_edit::Table::new();
        entry["key"] = toml_edit::value(user.key.to_string());
        for (key, at) in [
            ("expires", user.expires),
            ("ticket-until", user.ticket_until),
        ] {
            if let Some(at) = at {
                let at = humantime::format_rfc3339_seconds(at).to_string();
                entry[key] = toml_edit::value(at);
            }
        }
        if let Some(devices) = user.devices {
            entry["devices"] = toml_edit::value(i64::from(devices));
        }
        if let Some(rate) = user.rate {
            entry["rate"] = toml_edit::value(format!("{}B", rate.bytes_per_second()));
        }
        if let Some(connections) = user.connections {
            entry["connections"] = toml_edit::value(i64::from(connections));
        }
        if let Some(rules) = &user.allow {
            entry["allow"] = toml_edit::value(toml_edit::Array::from_iter(rules));
        }
        if let Some(folder) = &user.folder {
            entry["folder"] = toml_edit::value(folder.display().to_string());
        }
        if let Some(rights) = &user.rights {
            let rights = rights.iter().map(|right| right.name());
            entry["rights"] = toml_edit::value(toml_edit::Array::from_iter(rights));
        }
        users.insert(&user.name, toml_edit::Item::Table(entry));
        Ok(())
    })
}

/// Removes a user from a file.
///
/// # Errors
///
/// If the file cannot be read or written, or has no such user.
pub fn remove(path: &Path, name: &str) -> Result<(), Error> {
    change(path, |users| match users.remove(name) {
        Some(_) => Ok(()),
        None => Err(Error::file(
            path,
            format!("there is no user {}", mpquic::Escaped::new(name)),
        )),
    })
}

fn change(
    path: &Path,
    change: impl FnOnce(&mut toml_edit::Table) -> Result<(), Error>,
) -> Result<(), Error> {
    let wrong = |error: std::io::Error| Error::file(path, error);
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    // Two that change it at once: one after the other.
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let lock = options.open(beside(".lock")).map_err(wrong)?;
    lock.lock().map_err(wrong)?;
    let text = match path.exists() {
        true => String::from_utf8(read(path)?).map_err(|_| Error::file(path, "not UTF-8"))?,
        false => String::new(),
    };
    let document = text.parse::<toml_edit::DocumentMut>();
    let mut document = document.map_err(|error| Error::file(path, error.message()))?;
    let users = document.entry("users").or_insert_with(|| {
        let mut users = toml_edit::Table::new();
        users.set_implicit(true);
        toml_edit::Item::Table(users)
    });
    let users = users.as_table_mut();
    change(users.ok_or_else(|| Error::file(path, "`users` is no table"))?)?;
    let made = beside(&format!(".{}", std::process::id()));
    let written = private(&made, document.to_string().as_bytes()).and_then(|()| {
        // Who could read the file before can do so now, and nobody else.
        if let Ok(before) = fs::metadata(path) {
            fs::set_permissions(&made, before.permissions())?;
        }
        fs::rename(&made, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&made);
        wrong(error)
    })
}

#[cfg(test)]
mod tests;
