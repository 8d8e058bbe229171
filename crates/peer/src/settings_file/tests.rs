//! Tests of `settings_file`: a program with two subcommands, and files that say right and wrong things.

use clap::{Args, Parser, Subcommand};
use tempfile::TempDir;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    Serve(Serve),
    Connect(Connect),
    Check {
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct Common {
    #[arg(long)]
    config: Option<PathBuf>,
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=100))]
    idle: u64,
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    #[arg(long)]
    key: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Serve {
    #[arg(long, default_values = ["a", "b"])]
    listen: Vec<String>,
    #[arg(long)]
    allow_put: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Connect {
    server: String,
    #[arg(long, visible_alias = "fingerprint", conflicts_with = "ca")]
    pin: Option<String>,
    #[arg(long)]
    ca: Option<PathBuf>,
    #[arg(long)]
    link: Vec<LinkRule>,
    #[command(flatten)]
    common: Common,
}

struct Place(TempDir);

impl Place {
    fn with(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.toml"), text).unwrap();
        Self(folder)
    }

    fn file(&self) -> String {
        self.0.path().join("x.toml").display().to_string()
    }

    fn given(&self, words: &[&str]) -> Result<Given<Program>, String> {
        let file = self.file();
        let mut all = vec!["program"];
        all.extend(words);
        all.extend(["--config", &file]);
        Given::from(all).map_err(|error| brief(&error))
    }

    fn serve(&self, words: &[&str]) -> Serve {
        match self.given(words).unwrap().arguments.role {
            Role::Serve(serve) => serve,
            other => panic!("{other:?}"),
        }
    }

    fn connect(&self, words: &[&str]) -> Connect {
        match self.given(words).unwrap().arguments.role {
            Role::Connect(connect) => connect,
            other => panic!("{other:?}"),
        }
    }

    fn refused(&self, words: &[&str]) -> String {
        let why = self.given(words).unwrap_err();
        why.replace(&self.file(), "x.toml")
    }
}

const GOOD: &str = r#"
idle = 7
[serve]
listen = ["c", "d", "e"]
allow-put = true
cert = "cert.pem"
key = "/etc/key.pem"
[connect]
server = "example.com"
fingerprint = "abc"
idle = 9
"#;

#[test]
fn each_flag_has_its_key() {
    let place = Place::with(GOOD);
    let serve = place.serve(&["serve"]);
    assert_eq!(serve.listen, ["c", "d", "e"]);
    assert!(serve.allow_put);
    assert_eq!(serve.common.idle, 7);
    // Paths are meant from the file's folder.
    assert_eq!(serve.common.cert, Some(place.0.path().join("cert.pem")));
    assert_eq!(serve.common.key, Some("/etc/key.pem".into()));
    let connect = place.connect(&["connect"]);
    assert_eq!(connect.server, "example.com");
    assert_eq!(connect.pin.as_deref(), Some("abc"));
    assert_eq!(connect.common.idle, 9);
}

#[test]
fn what_has_no_flag_stands_behind_all_that_have_one() {
    for keys in [
        ["server", "pin", "idle"],
        ["idle", "pin", "server"],
        ["pin", "server", "idle"],
    ] {
        let value = |key: &str| if key == "idle" { "9" } else { "\"abc\"" };
        let lines = keys.map(|key| format!("{key} = {}\n", value(key)));
        for text in [lines.concat(), format!("[connect]\n{}", lines.concat())] {
            let connect = Place::with(&text).connect(&["connect"]);
            assert_eq!(connect.server, "abc", "{text}");
            assert_eq!(connect.pin.as_deref(), Some("abc"));
            assert_eq!(connect.common.idle, 9);
        }
    }
}

#[test]
fn flags_win() {
    let place = Place::with(GOOD);
    let serve = place.serve(&["serve", "--listen", "x", "--idle", "3", "--key", "k"]);
    assert_eq!((serve.listen, serve.common.idle), (vec!["x".to_owned()], 3));
    assert_eq!(serve.common.key, Some("k".into()));
    let connect = place.connect(&["connect", "other", "--ca", "ca.pem"]);
    assert_eq!(connect.server, "other");
    // One that excludes the file's wins, too.
    assert_eq!((connect.pin, connect.ca), (None, Some("ca.pem".into())));
}

#[test]
fn what_is_wrong_has_a_line_and_a_suggestion() {
    for (text, words, told) in [
        (
            "[serve]\nlisen = 1",
            "serve",
            "x.toml:2: unknown key `lisen`, did you mean `listen`?",
        ),
        // Those of other subcommands, too.
        (
            "[serve]\nlisen = 1",
            "connect",
            "x.toml:2: unknown key `lisen`, did you mean `listen`?",
        ),
        (
            "\nidel = 1",
            "serve",
            "x.toml:2: unknown key `idel`, did you mean `idle`?",
        ),
        (
            "[serv]",
            "serve",
            "x.toml:1: unknown table `serv`, did you mean `serve`?",
        ),
        (
            "[zzz]",
            "serve",
            "x.toml:1: unknown table `zzz`, there are connect, serve",
        ),
        (
            "[serve]\nserver = 'a'",
            "serve",
            "x.toml:2: unknown key `server`, there are allow-put, cert, idle, key, listen",
        ),
        (
            "[serve]\nallow-put = 'yes'",
            "serve",
            "x.toml:2: `allow-put` is true or false",
        ),
        (
            "[serve]\nidle = [1]",
            "serve",
            "x.toml:2: `idle` has one value, no list",
        ),
        (
            "[serve]\nlisten = [[1]]",
            "serve",
            "x.toml:2: `listen` has texts or numbers, nothing nested",
        ),
        (
            "idle = 0",
            "serve",
            "x.toml:1: invalid value '0' for '--idle <IDLE>': 0 is not in 1..=100",
        ),
        (
            "idle = ",
            "serve",
            "x.toml:1: string values must be quoted, expected literal string",
        ),
    ] {
        assert_eq!(Place::with(text).refused(&[words]), told, "{text}");
    }
    let nowhere = Given::<Program>::from(["program", "serve", "--config", "/none.toml"]);
    let why = brief(&nowhere.unwrap_err());
    assert!(why.starts_with("/none.toml: "), "{why}");
}

#[test]
fn what_is_in_force_is_a_file_again() {
    let place = Place::with(GOOD);
    let given = place.given(&["check", "serve", "--idle", "3"]).unwrap();
    assert!(given.is_check);
    let file = place.file();
    let folder = place.0.path().display();
    let shown = format!(
        "[serve]\nlisten = [\"c\", \"d\", \"e\"] # {file}:4\nallow-put = true # {file}:5\nidle = 3 # command line\n\
         cert = \"{folder}/cert.pem\" # {file}:6\nkey = \"/etc/key.pem\" # {file}:7\n"
    );
    assert_eq!(given.shown, shown);
    std::fs::write(place.file(), &shown).unwrap();
    assert_eq!(place.serve(&["serve"]).listen, ["c", "d", "e"]);
}

#[test]
fn a_file_is_read_again() {
    let place = Place::with("idle = 5");
    let given = place.given(&["serve"]).unwrap();
    std::fs::write(place.file(), "idle = 6").unwrap();
    let Role::Serve(serve) = given.again().unwrap().arguments.role else {
        panic!("another subcommand");
    };
    assert_eq!(serve.common.idle, 6);
    std::fs::write(place.file(), "idle = 600").unwrap();
    let why = given.again().unwrap_err();
    assert!(why.contains("x.toml:1: invalid value '600'"), "{why}");
}

#[test]
fn a_link_has_a_table() {
    let text = "server = \"x\"\n[link.wwan0]\nmetered = true\nrate = \"10Mbit\"\n[link.eth0]\nweight = 3\n";
    let connect = Place::with(text).connect(&["connect"]);
    let links: Vec<_> = connect.link.iter().map(|rule| rule.link.as_str()).collect();
    assert_eq!(links, ["eth0", "wwan0"]);
    assert!(connect.link[1].metered && connect.link[0].weight == Some(3));
    let own = Place::with("server = \"x\"\n[connect.link.wwan0]\nquota = \"5GB\"\n");
    assert_eq!(own.connect(&["connect"]).link[0].quota, Some(5_000_000_000));
    // A flag wins over all tables.
    let flag = own.connect(&["connect", "--link", "eth1:metered"]);
    assert!(flag.link.len() == 1 && flag.link[0].link == "eth1");
    let list = Place::with("server = \"x\"\nlink = [\"wwan0:metered\"]\n");
    assert!(list.connect(&["connect"]).link[0].metered);
    for (text, why) in [
        (
            "[link.wwan0]\nrates = \"1MB\"",
            "x.toml:2: unknown key `rates`, did you mean `rate`?",
        ),
        ("[link.wwan0]\nrate = \"1\"", "x.toml:1: \"1\" is no rate"),
        (
            "[link.wwan0]\nrate = [1]",
            "x.toml:2: `rate` is a text or a number",
        ),
        ("[link]\nwwan0 = 1", "x.toml:2: `link.wwan0` is a table"),
        (
            "[lnik.wwan0]\nrate = \"1MB\"",
            "x.toml:1: unknown table `lnik`",
        ),
    ] {
        let refused = Place::with(text).refused(&["connect", "x"]);
        assert!(refused.starts_with(why), "{refused}");
    }
}
