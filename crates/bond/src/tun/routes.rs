//! Who uses the tunnel: rules and routes of the system, and its DNS servers; set, and put back as they were.
//!
//! Four rules of each family, before those of the system, of which each has its job:
//!
//! ```text
//! 17400: to SERVER ipproto udp dport PORT goto 17410     the tunnel itself goes as it did
//! 17401: lookup main suppress_prefixlength 7             so do the networks that this machine is in
//! 17402: lookup 17400                                    all else goes through the device
//! 17410: nop
//! ```
//!
//! No network that a machine is in is wider than /8: a route to half of the Internet is one that somebody handed out to catch packets (by DHCP, CVE-2024-3661), and
//! does not lead past the device.
//!
//! A device that vanishes, since its process did, takes its route along: the rules then lead to nothing, and all is as it was, but with the kill switch, whose route
//! stays and refuses.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use super::device::ip;
use crate::error::Error;

/// The table of routes, and the place of the first rule. Ours; nothing else of this machine should have it.
const TABLE: u32 = 17400;
const LOCAL: u32 = 17401;
const TUNNEL: u32 = 17402;
/// Routes with prefixes so long or shorter are no networks that a machine is in.
const WIDE: u32 = 7;
const PAST: u32 = 17410;
/// What is asked for names.
const RESOLV: &str = "/etc/resolv.conf";

/// What is to be set.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) device: String,
    /// The tunnel's own ends.
    pub(crate) servers: Vec<SocketAddr>,
    /// Nothing leaves past the tunnel, whatever becomes of it.
    pub(crate) kill_switch: bool,
    /// Where the file of before is kept.
    pub(crate) folder: PathBuf,
}

fn families() -> impl Iterator<Item = &'static str> {
    let has_v6 = Path::new("/proc/sys/net/ipv6").exists();
    ["-4"].into_iter().chain(has_v6.then_some("-6"))
}

/// Removes what a run before left, however it ended.
///
/// # Errors
///
/// If the file of DNS servers cannot be put back.
pub fn restore(folder: &Path) -> Result<(), Error> {
    for family in families() {
        for pref in [TABLE, LOCAL, TUNNEL, PAST] {
            // As many as there are.
            while ip(&format!("{family} rule del pref {pref}")).is_ok() {}
        }
        // There may be none.
        let _ = ip(&format!("{family} route flush table {TABLE}"));
    }
    let kept = kept(folder);
    if kept.exists() {
        let before = fs::read(&kept).map_err(|error| wrong(&kept, &error))?;
        fs::write(RESOLV, before).map_err(|error| wrong(Path::new(RESOLV), &error))?;
        fs::remove_file(&kept).map_err(|error| wrong(&kept, &error))?;
    }
    Ok(())
}

fn kept(folder: &Path) -> PathBuf {
    folder.join("resolv.conf.before")
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> Error {
    mpquic_peer::Error::file(path, error).into()
}

impl Plan {
    /// With the kill switch, nothing but the tunnel itself and the networks that this machine is in gets out from here on.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        if !self.kill_switch {
            return restore(&self.folder);
        }
        // Before the rules of a run before are taken away.
        for family in families() {
            let refuse = "unreachable default metric 4294967295";
            ip(&format!("{family} route replace {refuse} table {TABLE}"))?;
        }
        self.rules()
    }

    /// All goes through the device, which is there now.
    pub(crate) fn lead(&self) -> Result<(), Error> {
        for family in families() {
            let device = &self.device;
            ip(&format!(
                "{family} route replace default dev {device} table {TABLE} metric 1"
            ))?;
        }
        self.rules()
    }

    /// The rules: new ones before old ones are taken away, so that there are always some.
    fn rules(&self) -> Result<(), Error> {
        for family in families() {
            let add = |rule: &str| {
                // One that stands already is as good.
                match ip(&format!("{family} rule add {rule}")) {
                    Err(error) if !error.to_string().contains("File exists") => Err(error),
                    _ => Ok(()),
                }
            };
            add(&format!("pref {PAST} nop"))?;
            for server in &self.servers {
                if server.is_ipv4() == (family == "-4") {
                    let (to, port) = (server.ip(), server.port());
                    add(&format!(
                        "pref {TABLE} to {to} ipproto udp dport {port} goto {PAST}"
                    ))?;
                }
            }
            add(&format!(
                "pref {LOCAL} lookup main suppress_prefixlength {WIDE}"
            ))?;
            add(&format!("pref {TUNNEL} lookup {TABLE}"))?;
        }
        Ok(())
    }

    /// Names are asked for there, if there is somewhere.
    pub(crate) fn ask(&self, dns: &[IpAddr]) -> Result<(), Error> {
        if dns.is_empty() {
            return Ok(());
        }
        let kept = kept(&self.folder);
        fs::create_dir_all(&self.folder).map_err(|error| wrong(&self.folder, &error))?;
        if !kept.exists() {
            let before = fs::read(RESOLV).unwrap_or_default();
            fs::write(&kept, before).map_err(|error| wrong(&kept, &error))?;
        }
        let mut text =
            "# While mpquic-bond has a tunnel; it puts back what was here before.\n".to_owned();
        for server in dns {
            text.push_str(&format!("nameserver {server}\n"));
        }
        fs::write(RESOLV, text).map_err(|error| wrong(Path::new(RESOLV), &error))
    }
}
