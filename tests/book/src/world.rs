//! What the pages speak of, made true: a machine with Wi-Fi and LTE, a server with a name, and a site in the web.
//!
//! A page runs in namespaces of its own (`unshare`): a network, mounts and processes. All of them end with the page, whatever
//! happens. Root has them; others have them where the system lets users make them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The namespace of the machine that serves.
pub const THERE: &str = "there";
/// That of a web server with a public address.
pub const WEB: &str = "web";

/// The addresses are those that the pages name. `here` is the machine with two links, on which all runs that is not said to be
/// elsewhere.
const NETWORK: &str = "
ip link set lo up
ip netns add there
ip netns add web
ip -n there link set lo up
ip -n web link set lo up
ip link add wlan0 type veth peer name wifi netns there
ip link add wwan0 type veth peer name lte netns there
ip -n there link add up0 type veth peer name eth0 netns web
ip address add 192.168.1.23/24 dev wlan0
ip address add 10.64.3.9/30 dev wwan0
ip address add 2001:db8:1::23/64 dev wlan0 nodad
ip -n there address add 192.168.1.1/24 dev wifi
ip -n there address add 10.64.3.10/30 dev lte
ip -n there address add 2001:db8:1::1/64 dev wifi nodad
ip -n there address add 203.0.113.5/32 dev lo
ip -n there address add 198.51.100.7/32 dev lo
ip -n there address add 2001:db8:5::5/128 dev lo nodad
ip -n there address add 93.184.215.1/24 dev up0
ip -n web address add 93.184.215.14/24 dev eth0
ip link set wlan0 up
ip link set wwan0 up
ip -n there link set wifi up
ip -n there link set lte up
ip -n there link set up0 up
ip -n web link set eth0 up
ip route add default via 192.168.1.1 dev wlan0
ip route add default via 10.64.3.10 dev wwan0 metric 600
ip -6 route add default via 2001:db8:1::1 dev wlan0
ip -n web route add default via 93.184.215.1
ip netns exec there sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
sysctl -qw net.ipv4.conf.all.rp_filter=0
";

const HOSTS: &str = "\
127.0.0.1 localhost
::1 localhost
203.0.113.5 files.example server.example
2001:db8:5::5 files.example server.example
93.184.215.14 example.com
";

/// How to get namespaces here: the arguments for `unshare`, or why there are none.
pub fn namespaces() -> Result<Vec<&'static str>, String> {
    if !cfg!(target_os = "linux") {
        return Err("only Linux has network namespaces".to_owned());
    }
    let common = [
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ];
    let mut said = String::new();
    for first in [&[][..], &["--map-root-user"]] {
        let arguments: Vec<_> = first.iter().chain(&common).copied().collect();
        let test = Command::new("unshare")
            .args(&arguments)
            .args(["ip", "link", "set", "lo", "up"])
            .output();
        match test {
            Ok(done) if done.status.success() => return Ok(arguments),
            Ok(done) => said = String::from_utf8_lossy(&done.stderr).trim().to_owned(),
            Err(error) => said = error.to_string(),
        }
    }
    Err(format!(
        "no network namespaces without root here: unshare says: {said}"
    ))
}

fn sh(script: &str) -> Result<(), String> {
    let done = Command::new("sh")
        .args(["-ec", script])
        .stdin(Stdio::null())
        .output();
    let done = done.map_err(|error| format!("sh: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!(
        "the page's network cannot be made: {}",
        said.trim()
    ))
}

/// Makes the page's machines; called within its namespaces. `folder` is the page's own; `kept` are the paths that its blocks use
/// beside it.
pub fn make(kept: &[&Path], folder: &Path) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(path.display().to_string())
    };
    let hosts = write("hosts", HOSTS)?;
    // Pages write to /tmp, and serve from /srv. A checkout below one of them, or what is built, stays visible.
    let own = ["/tmp", "/srv"]
        .iter()
        .filter(|fresh| !kept.iter().any(|path| path.starts_with(fresh)));
    let own: String = own
        .map(|fresh| format!("mkdir -p {fresh}; mount -t tmpfs tmpfs {fresh}\n"))
        .collect();
    sh(&format!(
        "mount --make-rprivate /
        mount -t tmpfs tmpfs /run
        mkdir -p /run/netns /run/user
        {own}
        mount --bind '{hosts}' /etc/hosts
        mkdir -p /srv/files/photos/2026 /srv/files/incoming
        echo one > /srv/files/photos/one.jpg
        head -c 3000000 /dev/urandom > /srv/files/photos/2026/two.jpg"
    ))?;
    sh(NETWORK)?;
    web_site(folder)
}

/// A certificate for `example.com`, which the page's programs trust: `site.pem` with `site.key`.
pub fn certificate(folder: &Path) -> Result<(), String> {
    let at = folder.display();
    sh(&format!(
        "test -e '{at}/site.pem' || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
            -subj /CN=example.com -addext subjectAltName=DNS:example.com -addext basicConstraints=critical,CA:FALSE \
            -keyout '{at}/site.key' -out '{at}/site.pem'"
    ))
}

/// A site at `example.com`: see [`environment`] for how programs trust it.
fn web_site(folder: &Path) -> Result<(), String> {
    certificate(folder)?;
    Command::new("ip")
        .args([
            "netns", "exec", WEB, "openssl", "s_server", "-quiet", "-www", "-accept", "443",
        ])
        .arg("-cert")
        .arg(folder.join("site.pem"))
        .arg("-key")
        .arg(folder.join("site.key"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the web site: {error}"))?;
    Ok(())
}

/// What the page's programs find in their environment, beside what is always there.
pub fn environment(folder: &Path) -> [(&'static str, String); 1] {
    [(
        "CURL_CA_BUNDLE",
        folder.join("site.pem").display().to_string(),
    )]
}
