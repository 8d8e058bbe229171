//! Many small files: several are asked for on one stream.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mpquic_cp::{
    Client, ClientSettings, Exit, Locals, Name, Progress, ServerSettings, client_tls, server_tls,
};
use mpquic_peer::{Identity, PROOF, Transport, Trust};
use mpquic_test_support::runtime::run;

use crate::copy::{FIRST, Place, client, contents, has_parts, message, options, raw, scratch};

fn message_of(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn get(name: &str) -> Vec<u8> {
    message_of(&format!(
        r#"{{"Get":{{"name":"{name}","have":0,"digest":null}}}}"#
    ))
}

fn touch(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn several_files_may_be_asked_for_on_one_stream() {
    run(async {
        let place = Place::new();
        for (name, text) in [("first", "one"), ("second", "two")] {
            std::fs::write(place.far(name), text).unwrap();
        }
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = {
            let lines = Arc::clone(&lines);
            move |line: &str| lines.lock().unwrap().push(line.to_owned())
        };
        let server = place.serve_telling(ServerSettings::PATIENCE, log);
        let (_endpoint, connection) = raw(&server).await;
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        // One that there is not holds up nothing, and what makes no sense ends it.
        let asked = [
            get("first"),
            get("missing"),
            get("second"),
            get("../a"),
            get("first"),
        ];
        send.write_all(&asked.concat()).await.unwrap();
        for text in ["one", "", "two"] {
            let answer = message(&mut recv).await;
            if text.is_empty() {
                assert!(answer.contains(r#""kind":"Missing""#), "{answer}");
                continue;
            }
            assert!(
                answer.contains(r#""Content":{"size":3,"from":0"#),
                "{answer}"
            );
            let mut contents = [0; 3 + 32];
            recv.read_exact(&mut contents).await.unwrap();
            assert_eq!(&contents[..3], text.as_bytes());
        }
        let answer = message(&mut recv).await;
        assert!(answer.contains(r#""kind":"Malformed""#), "{answer}");
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"");
        let told = lines.lock().unwrap().join("\n");
        for what in [
            "sent first: 3 of 3",
            "missing: no such file",
            "sent second: 3 of 3",
            "makes no sense",
        ] {
            assert!(told.contains(what), "{what}: {told}");
        }
    });
}

#[test]
fn many_small_files_arrive_whatever_is_there_of_them() {
    run(async {
        let place = Place::new();
        std::fs::create_dir_all(place.far("all/deep")).unwrap();
        for number in 0..400 {
            let name = format!("all/{}file{number:03}", ["", "deep/"][number % 2]);
            std::fs::write(place.far(&name), name.repeat(1 + number)).unwrap();
            touch(&place.far(&name), 1_700_000_000);
        }
        std::fs::write(place.far("all/empty"), "").unwrap();
        std::fs::write(place.far("all/large"), vec![7; 300_000]).unwrap();
        std::fs::create_dir_all(place.near("all")).unwrap();
        // The same, the beginning of it, another one that is older, and one that is newer.
        std::fs::copy(place.far("all/file000"), place.near("all/file000")).unwrap();
        let half = &std::fs::read(place.far("all/file002")).unwrap()[..10];
        std::fs::write(place.near("all").join(scratch("file002")), half).unwrap();
        std::fs::write(place.near("all/file004"), "older").unwrap();
        touch(&place.near("all/file004"), 1_600_000_000);
        std::fs::write(place.near("all/file006"), "newer").unwrap();
        std::fs::create_dir(place.near("all/file008")).unwrap();
        let server = place.serve();
        let near = client(&server, server.address, &[FIRST]).await;
        let progress = Arc::new(Progress::new());
        let all: Name = "all".parse().unwrap();
        near.get(&all, &place.near(""), &options(), &progress)
            .await
            .unwrap();
        // The newer one and the folder stay.
        assert_eq!(progress.incomplete(), Some(Exit::Partial));
        assert_eq!(progress.files(), 400);
        let mut there = contents(&place.far(""));
        there.insert("all/file006".to_owned(), Some(b"newer".to_vec()));
        there.insert("all/file008".to_owned(), None);
        let mut here = contents(&place.near(""));
        here.retain(|name, what| there.remove(name).is_none_or(|same| same != *what));
        let names = (here.keys().collect::<Vec<_>>(), there.keys());
        assert!(
            here.is_empty() && there.is_empty(),
            "other than there: {names:?}"
        );
        assert!(!has_parts(&place.near("")));
        // All that is there is found to be there.
        let again = Arc::new(Progress::new());
        near.get(&all, &place.near(""), &options(), &again)
            .await
            .unwrap();
        assert_eq!((again.files(), again.moved_now()), (400, 0));
        near.close().await;
        server.stop().await;
    });
}

fn fresh(name: &str, size: usize, contents: &[u8], digest: &[u8]) -> Vec<u8> {
    let request =
        format!(r#"{{"Fresh":{{"name":"{name}","size":{size},"modified":null,"mode":null}}}}"#);
    [&message_of(&request), contents, digest].concat()
}

#[test]
fn several_files_may_be_put_on_one_stream() {
    run(async {
        let place = Place::new();
        std::fs::write(place.far("there"), "as it was").unwrap();
        let server = place.serve();
        let (_endpoint, connection) = raw(&server).await;
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        let digest = <sha2::Sha256 as sha2::Digest>::digest(b"one");
        let sent = [
            fresh("deep/first", 3, b"one", &digest),
            fresh("there", 3, b"one", &digest),
            fresh("damaged", 3, b"two", &digest),
            fresh("", 3, b"one", &digest),
            fresh("second", 3, b"one", &digest),
            fresh("large", usize::MAX, b"", b""),
        ];
        send.write_all(&sent.concat()).await.unwrap();
        let present = r#""kind":"Present""#;
        let malformed = r#""kind":"Malformed""#;
        for what in [
            r#""Done""#,
            present,
            r#""kind":"Damaged""#,
            malformed,
            r#""Done""#,
            malformed,
        ] {
            let answer = message(&mut recv).await;
            assert!(answer.contains(what), "{what}: {answer}");
        }
        // What is too large for it ends the stream.
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"");
        let mut found = contents(&place.far(""));
        for (name, text) in [
            ("deep/first", "one"),
            ("second", "one"),
            ("there", "as it was"),
        ] {
            assert_eq!(found.remove(name), Some(Some(text.as_bytes().to_vec())));
        }
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["deep"]);
        // One that is not sent to its end leaves nothing.
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&fresh("third", 30, b"one", b""))
            .await
            .unwrap();
        send.finish().unwrap();
        assert!(recv.read_to_end(100).await.is_ok());
        assert!(!place.far("third").exists() && !has_parts(&place.far("")));
    });
}

#[test]
fn many_small_files_are_put_whatever_is_there_of_them() {
    run(async {
        for some_is_there in [false, true] {
            let place = Place::new();
            std::fs::create_dir_all(place.near("all/deep")).unwrap();
            for number in 0..400 {
                let name = format!("all/{}file{number:03}", ["", "deep/"][number % 2]);
                std::fs::write(place.near(&name), name.repeat(1 + number)).unwrap();
                touch(&place.near(&name), 1_700_000_000);
            }
            std::fs::write(place.near("all/large"), vec![7; 300_000]).unwrap();
            std::fs::create_dir_all(place.far("all")).unwrap();
            // The same, and others: one that is older and one that is newer, among the last.
            if some_is_there {
                std::fs::copy(place.near("all/file398"), place.far("all/file398")).unwrap();
                std::fs::write(place.far("all/file396"), "older").unwrap();
                touch(&place.far("all/file396"), 1_600_000_000);
                std::fs::write(place.far("all/file394"), "newer").unwrap();
            }
            let server = place.serve();
            let near = client(&server, server.address, &[FIRST]).await;
            let progress = Arc::new(Progress::new());
            near.put(&place.near("all"), None, &options(), &progress)
                .await
                .unwrap();
            let kept = usize::from(some_is_there);
            assert_eq!(
                progress.incomplete(),
                some_is_there.then_some(Exit::Partial)
            );
            assert_eq!(progress.files() as usize, 401 - kept);
            let mut there = contents(&place.near(""));
            if some_is_there {
                there.insert("all/file394".to_owned(), Some(b"newer".to_vec()));
            }
            let mut here = contents(&place.far(""));
            here.retain(|name, what| there.remove(name).is_none_or(|same| same != *what));
            let names = (here.keys().collect::<Vec<_>>(), there.keys());
            assert!(
                here.is_empty() && there.is_empty(),
                "other than there: {names:?}"
            );
            assert!(!has_parts(&place.far("")));
            let modified = place.far("all/deep/file001").metadata().unwrap().modified();
            let seconds = modified.unwrap().duration_since(SystemTime::UNIX_EPOCH);
            assert_eq!(seconds.unwrap().as_secs(), 1_700_000_000);
            // All that is there is found to be there.
            let again = Arc::new(Progress::new());
            near.put(&place.near("all"), None, &options(), &again)
                .await
                .unwrap();
            assert_eq!((again.files() as usize, again.moved_now()), (401 - kept, 0));
            near.close().await;
            server.stop().await;
        }
    });
}

/// A server that can read a file to its end only if it is asked for by itself. Returns how many files each of its streams was asked for.
async fn falter(endpoint: mpquic::Endpoint, files: usize) -> Vec<usize> {
    let connection = endpoint.accept().await.unwrap().await.unwrap();
    let (mut send, mut recv) = connection.accept_bi().await.unwrap();
    recv.read_exact(&mut [0; 1 + PROOF]).await.unwrap();
    let welcome = message_of(r#"{"writable":false,"addresses":[],"several":true}"#);
    send.write_all(&welcome).await.unwrap();
    send.finish().unwrap();
    let mut asked = Vec::new();
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let requests = recv.read_to_end(1 << 20).await.unwrap();
        let requests = String::from_utf8_lossy(&requests).into_owned();
        if requests.contains("List") {
            let entry = |name: &str, kind: &str| {
                let size = if kind == "File" { 3 } else { 0 };
                message_of(&format!(
                    r#"{{"name":"{name}","kind":"{kind}","size":{size},"modified":null}}"#
                ))
            };
            let mut listing = [message_of(r#""Listing""#), entry("all", "Folder")].concat();
            for number in 0..files {
                listing.extend(entry(&format!("all/{number:03}"), "File"));
            }
            listing.extend([0; 4]);
            send.write_all(&listing).await.unwrap();
            send.finish().unwrap();
            continue;
        }
        let count = requests.matches("Get").count();
        asked.push(count);
        let content = message_of(r#"{"Content":{"size":3,"from":0,"modified":null}}"#);
        let digest = <sha2::Sha256 as sha2::Digest>::digest(b"one");
        let whole = [&content[..], b"one", &digest].concat();
        send.write_all(&whole).await.unwrap();
        match count {
            1 => send.finish().unwrap(),
            _ => send.reset(mpquic::VarInt::from_u32(2)).unwrap(),
        }
    }
    asked
}

#[test]
fn what_is_cut_off_is_asked_for_by_itself() {
    run(async {
        let place = Place::new();
        let kept = place.near("identity");
        let identity = Identity::kept_in(&kept, "test").unwrap();
        let trust = Trust::Fingerprint(identity.fingerprint().unwrap());
        let tls = server_tls(identity, None, None).unwrap();
        let config = mpquic::ServerConfig::new(Arc::new(tls)).unwrap();
        let endpoint = mpquic::Endpoint::server(config, &[(FIRST, 0).into()]).unwrap();
        let settings = ClientSettings {
            server: endpoint.local_addrs()[0].to_string(),
            token: None,
            locals: Locals::These(vec![FIRST.into()]),
            transport: Transport::default(),
            rate: None,
        };
        let served = tokio::spawn(falter(endpoint, 60));
        let tls = client_tls(&trust, None, None).unwrap();
        let near = Client::connect(tls, settings, |_| {}).await.unwrap();
        let progress = Arc::new(Progress::new());
        let all: Name = "all".parse().unwrap();
        near.get(&all, &place.near("copy"), &options(), &progress)
            .await
            .unwrap();
        assert_eq!((progress.files(), progress.incomplete()), (60, None));
        near.close().await;
        let there = contents(&place.near("copy"));
        assert_eq!(there.len(), 60);
        assert!(there.values().all(|one| one.as_deref() == Some(b"one")));
        let asked = served.await.unwrap();
        // All of them in the first turns, and then what was lost.
        let several: Vec<_> = asked.iter().copied().filter(|&count| count > 1).collect();
        assert_eq!(several, [5; 12]);
        assert!(
            (48..=60).contains(&(asked.len() - several.len())),
            "{asked:?}"
        );
    });
}
