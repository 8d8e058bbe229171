//! Tests of `users`: who is let in, by a file that changes.

use super::*;
use crate::user_key::UserSecret;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("users.toml")
    }

    fn add(&self, name: &str, change: impl FnOnce(&mut User)) -> UserKey {
        let key = UserSecret::random().unwrap().key();
        let mut user = User::new(name, key);
        change(&mut user);
        add(&self.file(), &user).unwrap();
        key
    }

    fn open(&self) -> Arc<Users> {
        Users::open(&self.file(), |_| Ok(())).unwrap()
    }
}

fn device() -> UserKey {
    UserSecret::random().unwrap().key()
}

#[test]
fn a_file_keeps_what_others_wrote() {
    let place = Place::new();
    let begin = "# ours\n[users.zoe] # a friend\nkey = \"";
    let zoe = device();
    fs::write(place.file(), format!("{begin}{zoe}\"\n")).unwrap();
    let key = place.add("alice", |user| {
        user.expires = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000));
        user.devices = Some(2);
        user.rate = Some("10Mbit".parse().unwrap());
        user.connections = Some(3);
        user.allow = Some(vec!["*:443".to_owned()]);
        user.folder = Some("of alice".into());
        user.rights = Some(vec![Right::Get, Right::Put]);
    });
    let text = fs::read_to_string(place.file()).unwrap();
    assert!(text.starts_with(begin), "{text}");
    let users = load(&place.file(), |_| Ok(())).unwrap();
    assert_eq!(users[&zoe].name, "zoe");
    let alice = &users[&key];
    assert_eq!(alice.rate, Some("10Mbit".parse().unwrap()));
    assert_eq!((alice.devices, alice.connections), (Some(2), Some(3)));
    assert_eq!(alice.rights, Some(vec![Right::Get, Right::Put]));
    let twice = add(&place.file(), alice).unwrap_err().to_string();
    assert!(twice.contains("there is a user alice already"), "{twice}");
    remove(&place.file(), "alice").unwrap();
    assert_eq!(
        fs::read_to_string(place.file()).unwrap(),
        format!("{begin}{zoe}\"\n")
    );
    assert!(remove(&place.file(), "alice").is_err());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let other = Place::new();
        other.add("bob", |_| {});
        let mode = fs::metadata(other.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn what_is_wrong_in_a_file_is_told() {
    let place = Place::new();
    let key = device();
    for (text, told) in [
        (
            format!("[users.a]\nkey = \"{key}\"\nrat = 1"),
            "line 3: unknown field `rat`, expected one of",
        ),
        (
            "[users.a]\nkey = \"ab\"".to_owned(),
            "users.a: \"ab\" is no key of a user",
        ),
        ("[users.a]".to_owned(), "missing field `key`"),
        (
            format!("[users.\"a b\"]\nkey = \"{key}\""),
            "is no name of a user",
        ),
        (
            format!("[users.a]\nkey = \"{key}\"\nexpires = \"soon\""),
            "users.a: expires: \"soon\" is no time",
        ),
        (
            format!("[users.a]\nkey = \"{key}\"\nrights = [\"fly\"]"),
            "unknown variant `fly`",
        ),
        (
            format!("[users.a]\nkey = \"{key}\"\n[users.b]\nkey = \"{key}\""),
            "users.b: a has the same key",
        ),
        (
            format!("[users.a]\nkey = \"{key}\"\nrate = \"fast\""),
            "is no rate",
        ),
    ] {
        fs::write(place.file(), &text).unwrap();
        let why = Users::open(&place.file(), |_| Ok(()))
            .unwrap_err()
            .to_string();
        assert!(why.contains(told), "{why}");
    }
    let text = format!("[users.a]\nkey = \"{key}\"\nexpires = 2030-01-01T00:00:00Z");
    fs::write(place.file(), &text).unwrap();
    assert!(place.open().state().users[&key].expires.is_some());
    let refused = Users::open(&place.file(), |_| Err("no".to_owned())).unwrap_err();
    assert!(refused.to_string().ends_with("users.a: no"), "{refused}");
}

#[test]
fn a_ticket_is_good_on_so_many_devices() {
    let place = Place::new();
    let key = place.add("alice", |user| user.devices = Some(1));
    let users = place.open();
    let (one, two) = (device(), device());
    // Who cannot prove it uses nothing up.
    assert!(users.admit(key, two, || false).is_err());
    for _ in 0..3 {
        assert_eq!(users.admit(key, one, || true).unwrap().name(), "alice");
    }
    let used = |users: &Arc<Users>| users.admit(key, two, || true).unwrap_err();
    assert!(used(&users).contains("used already, and is good on 1 device only"));
    // After the next start, too; and half a line is none.
    let mut text = fs::read_to_string(devices_file(&place.file())).unwrap();
    text.push_str(&format!("{key} abc"));
    fs::write(devices_file(&place.file()), text).unwrap();
    let again = place.open();
    assert!(again.admit(key, one, || true).is_ok());
    assert!(used(&again).contains("used already"));
}

#[test]
fn connections_and_times_have_an_end() {
    let place = Place::new();
    let key = place.add("alice", |user| user.connections = Some(2));
    let old = place.add("bob", |user| user.expires = Some(SystemTime::now() - LOOK));
    let users = place.open();
    let mut held: Vec<_> = (0..2)
        .map(|_| users.admit(key, device(), || true).unwrap())
        .collect();
    for _ in 0..3 {
        let why = users.admit(key, device(), || true).unwrap_err();
        assert_eq!(why, "too many connections of this user");
    }
    held.pop();
    assert!(users.admit(key, device(), || true).is_ok());
    let why = users.admit(old, device(), || true).unwrap_err();
    assert_eq!(why, "the time of this user is over");
    // A ticket ends for devices that are new then.
    let late = place.add("eve", |user| {
        user.ticket_until = Some(SystemTime::now() + LOOK)
    });
    let one = device();
    assert!(users.admit(late, one, || true).is_ok());
    users.state().users.insert(
        late,
        Arc::new(User {
            ticket_until: Some(SystemTime::UNIX_EPOCH),
            ..User::new("eve", late)
        }),
    );
    assert!(users.admit(late, one, || true).is_ok());
    let why = users.admit(late, device(), || true).unwrap_err();
    assert_eq!(why, "this ticket has expired");
    // Of one that nobody knows, nothing is checked.
    assert!(
        users
            .admit(device(), device(), || panic!("checked"))
            .is_err()
    );
}

#[tokio::test]
async fn users_come_and_go_while_it_runs() {
    let place = Place::new();
    let key = place.add("alice", |_| {});
    let users = place.open();
    let alice = users.admit(key, device(), || true).unwrap();
    // Without being told to read it.
    let bob = place.add("bob", |_| {});
    assert_eq!(users.admit(bob, device(), || true).unwrap().name(), "bob");
    remove(&place.file(), "alice").unwrap();
    users.reload().unwrap();
    assert_eq!(alice.ended().await, "this token was revoked");
    assert!(users.admit(key, device(), || true).is_err());
    fs::write(place.file(), "nonsense").unwrap();
    assert!(users.reload().is_err());
    assert!(users.admit(bob, device(), || true).is_ok());
}
