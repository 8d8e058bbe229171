//! The small HTTP server of the figures: reads nothing but three names, changes nothing, and answers nobody by a name of the web.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::error::Error;
use crate::identity::read;
use crate::status::Status;

/// The longest head of a request, bytes.
const LONGEST: usize = 8 * 1024;
/// How long a request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests at a time; others wait.
const AT_A_TIME: usize = 16;
/// The shortest token, bytes.
const SHORTEST: usize = 16;
const PAGE: &str = include_str!("page.html");

/// A server of the figures of this program.
#[derive(Debug)]
pub struct StatusServer {
    listener: TcpListener,
    guard: Arc<Guard>,
}

/// Who is answered.
struct Guard {
    /// Of the token, under a key of this process: two of these are compared in constant time.
    token: Option<hmac::Tag>,
    key: hmac::Key,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}

impl StatusServer {
    /// Listens on an address. One that others can reach needs a token, from a file: it is the password of HTTP's Basic
    /// authentication with any name, or a bearer token.
    ///
    /// # Errors
    ///
    /// If it cannot listen there, or anybody could look.
    pub async fn bind(address: SocketAddr, token: Option<&Path>) -> Result<Self, Error> {
        let key = random()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let token = match token {
            Some(path) => {
                let text = read(path)?;
                let text = text.trim_ascii();
                if text.len() < SHORTEST {
                    let why = format!("a token has at least {SHORTEST} bytes");
                    return Err(Error::file(path, why));
                }
                Some(hmac::sign(&key, text))
            }
            None if !address.ip().to_canonical().is_loopback() => {
                let why = "anybody could look at --metrics there: give --metrics-token-file, or an address such as 127.0.0.1:9433";
                return Err(Error::Setting(why.to_owned()));
            }
            None => None,
        };
        let listen = |source| Error::Listen {
            address: address.to_string(),
            source,
        };
        Ok(Self {
            listener: TcpListener::bind(address).await.map_err(listen)?,
            guard: Arc::new(Guard { token, key }),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// In the words of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers with what `status` says, for as long as it is polled.
    pub async fn run(&self, status: impl Fn() -> Status) {
        let turns = Arc::new(Semaphore::new(AT_A_TIME));
        // The figures are made for those who may see them.
        let (asking, mut asked) = mpsc::channel::<oneshot::Sender<Status>>(AT_A_TIME);
        loop {
            let coming = async {
                // It is never closed.
                let turn = Arc::clone(&turns).acquire_owned().await;
                (turn, self.listener.accept().await)
            };
            let (turn, accepted) = tokio::select! {
                coming = coming => coming,
                Some(asker) = asked.recv() => {
                    // One who is gone needs them no more.
                    let _ = asker.send(status());
                    continue;
                }
            };
            let Ok((socket, _)) = accepted else {
                // The one that came is gone, or there are no descriptors for now.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (guard, asking) = (Arc::clone(&self.guard), asking.clone());
            tokio::spawn(async move {
                // One who does not ask or read is given up.
                let _ = timeout(PATIENCE, answer(socket, &guard, &asking)).await;
                drop(turn);
            });
        }
    }
}

fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::Setting("the system has no randomness".to_owned()))?;
    Ok(bytes)
}

type Asking = mpsc::Sender<oneshot::Sender<Status>>;

async fn answer(mut socket: TcpStream, guard: &Guard, asking: &Asking) -> io::Result<()> {
    let mut head = Vec::new();
    let response = loop {
        if head.len() > LONGEST {
            break Response::Ready(Answer::plain(
                "431 Request Header Fields Too Large",
                "too long\n",
            ));
        }
        if socket.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) => break respond(&request, guard),
            Ok(httparse::Status::Partial) => {}
            Err(_) => {
                let answer = Answer::plain("400 Bad Request", "that is no request\n");
                break Response::Ready(answer);
            }
        }
    };
    let answer = match response {
        Response::Ready(answer) => answer,
        Response::Figures { write, head_only } => {
            let (asker, status) = oneshot::channel();
            // Neither fails while it runs.
            let _ = asking.send(asker).await;
            let status = status.await.map_err(io::Error::other)?;
            let mut answer = write(&status);
            answer.head_only = head_only;
            answer
        }
    };
    let more = answer.more;
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n{more}\r\n",
        answer.code,
        answer.kind,
        answer.body.len()
    );
    socket.write_all(head.as_bytes()).await?;
    if !answer.head_only {
        socket.write_all(answer.body.as_bytes()).await?;
    }
    socket.shutdown().await
}

/// What a request gets.
enum Response {
    Ready(Answer),
    /// The figures, written so.
    Figures {
        write: fn(&Status) -> Answer,
        head_only: bool,
    },
}

struct Answer {
    code: &'static str,
    kind: &'static str,
    more: String,
    body: String,
    head_only: bool,
}

impl Answer {
    fn plain(code: &'static str, body: &str) -> Self {
        Self::of(code, "text/plain; charset=utf-8", body.to_owned())
    }

    const fn of(code: &'static str, kind: &'static str, body: String) -> Self {
        Self {
            code,
            kind,
            more: String::new(),
            body,
            head_only: false,
        }
    }
}

fn respond(request: &httparse::Request<'_, '_>, guard: &Guard) -> Response {
    let field = |name: &str| {
        let mut found = request
            .headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case(name));
        let first = found
            .next()
            .map(|field| String::from_utf8_lossy(field.value).into_owned());
        // Two that differ would be read by each as it likes.
        first.filter(|_| found.next().is_none())
    };
    let is_head = request.method == Some("HEAD");
    if request.method != Some("GET") && !is_head {
        let mut answer = Answer::plain("405 Method Not Allowed", "GET and HEAD only\n");
        answer.more = "Allow: GET, HEAD\r\n".to_owned();
        return Response::Ready(answer);
    }
    if !guard.takes(field("authorization").as_deref()) {
        let mut answer = Answer::plain("401 Unauthorized", "this needs the token\n");
        answer.more = "WWW-Authenticate: Basic realm=\"mpquic\"\r\n".to_owned();
        return Response::Ready(answer);
    }
    // A page of the web may lead a browser here by a name of its own that is resolved to this address (DNS rebinding). With a token,
    // that does not help it: browsers give it to the name only for which it was typed.
    if guard.token.is_none() && !field("host").is_some_and(|host| is_here(&host)) {
        return Response::Ready(Answer::plain(
            "421 Misdirected Request",
            "ask for this by its address or as localhost\n",
        ));
    }
    let site = field("sec-fetch-site").unwrap_or_default();
    if site == "cross-site" && field("sec-fetch-dest").as_deref() != Some("document") {
        return Response::Ready(Answer::plain("403 Forbidden", "not for other pages\n"));
    }
    let path = request.path.unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let write: fn(&Status) -> Answer = match path {
        "/metrics" => |status| {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            Answer::of("200 OK", kind, status.to_prometheus())
        },
        "/status.json" => |status| {
            let text = serde_json::to_string(status).unwrap_or_default();
            Answer::of("200 OK", "application/json", text)
        },
        other => {
            let mut answer = match other {
                "/" => page(),
                _ => Answer::plain("404 Not Found", "there are /, /metrics and /status.json\n"),
            };
            answer.head_only = is_head;
            return Response::Ready(answer);
        }
    };
    Response::Figures {
        write,
        head_only: is_head,
    }
}

/// The page, whose script and style alone may run in it, and which loads nothing from elsewhere.
fn page() -> Answer {
    let nonce: String = match random() {
        Ok(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => return Answer::plain("500 Internal Server Error", "no randomness\n"),
    };
    let mut answer = Answer::of(
        "200 OK",
        "text/html; charset=utf-8",
        PAGE.replace("NONCE", &nonce),
    );
    answer.more = format!(
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n"
    );
    answer
}

/// Whether a Host field has this machine's name for itself, or an address; with a port or without.
fn is_here(host: &str) -> bool {
    let is_port = |rest: &str| {
        let port = rest.strip_prefix(':');
        rest.is_empty() || port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some((inside, rest)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        return inside.parse::<Ipv6Addr>().is_ok() && is_port(rest);
    }
    let (bare, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
    let is_own = bare.eq_ignore_ascii_case("localhost") || bare.parse::<Ipv4Addr>().is_ok();
    is_own && is_port(rest)
}

impl Guard {
    fn takes(&self, authorization: Option<&str>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let given = authorization.and_then(|field| {
            let (scheme, value) = field.split_once(' ')?;
            if scheme.eq_ignore_ascii_case("bearer") {
                return Some(value.trim().as_bytes().to_vec());
            }
            let pair = STANDARD.decode(value.trim()).ok()?;
            let colon = pair.iter().position(|byte| *byte == b':')?;
            scheme
                .eq_ignore_ascii_case("basic")
                .then(|| pair[colon + 1..].to_vec())
        });
        given.is_some_and(|given| {
            let given = hmac::sign(&self.key, &given);
            // Constant time: whether both are the MAC of one text.
            let outer = hmac::sign(&self.key, token.as_ref());
            hmac::verify(&self.key, given.as_ref(), outer.as_ref()).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(address: SocketAddr, text: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    fn status() -> Status {
        Status {
            program: "mpquic-test",
            role: "serve",
            peers: Vec::new(),
        }
    }

    async fn started(token: Option<&Path>) -> SocketAddr {
        let any = "127.0.0.1:0".parse().unwrap();
        let server = StatusServer::bind(any, token).await.unwrap();
        let address = server.local_addr().unwrap();
        tokio::spawn(async move { server.run(status).await });
        address
    }

    #[tokio::test]
    async fn those_of_this_machine_are_answered() {
        let address = started(None).await;
        for (host, path, begin, text) in [
            (
                "localhost:9433",
                "/metrics",
                "HTTP/1.1 200 OK",
                "mpquic_connections 0",
            ),
            (
                "127.0.0.1",
                "/status.json",
                "HTTP/1.1 200 OK",
                r#""program":"mpquic-test""#,
            ),
            ("[::1]:1", "/?x", "HTTP/1.1 200 OK", "script-src 'nonce-"),
            (
                "localhost",
                "/other",
                "HTTP/1.1 404",
                "there are /, /metrics",
            ),
            // A page of the web by a name of its own.
            (
                "evil.example:9433",
                "/metrics",
                "HTTP/1.1 421",
                "by its address",
            ),
            (
                "localhost.evil.example",
                "/metrics",
                "HTTP/1.1 421",
                "by its address",
            ),
            (
                "127.0.0.1.evil.example",
                "/metrics",
                "HTTP/1.1 421",
                "by its address",
            ),
            // What none of the browsers sends.
            (
                "127.0.0.1:1, evil.example",
                "/metrics",
                "HTTP/1.1 421",
                "by its address",
            ),
            (
                "[::1]evil.example",
                "/metrics",
                "HTTP/1.1 421",
                "by its address",
            ),
            (
                "localhost:1@evil.example",
                "/metrics",
                "HTTP/1.1 421",
                "by its address",
            ),
        ] {
            let answer = ask(
                address,
                &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            )
            .await;
            assert!(
                answer.starts_with(begin) && answer.contains(text),
                "{host}{path}: {answer}"
            );
            assert!(!answer.contains("Access-Control"), "{answer}");
        }
        for (request, begin) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 421"),
            (
                "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
                "HTTP/1.1 421",
            ),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 405"),
            (
                "GET /metrics HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n",
                "HTTP/1.1 403",
            ),
            ("nonsense\r\n\r\n", "HTTP/1.1 400"),
        ] {
            let answer = ask(address, request).await;
            assert!(answer.starts_with(begin), "{request}: {answer}");
        }
        let long = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}",
            "x".repeat(LONGEST)
        );
        assert!(ask(address, &long).await.starts_with("HTTP/1.1 431"));
        let head = ask(address, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }

    #[tokio::test]
    async fn others_need_the_token() {
        let all = "0.0.0.0:0".parse().unwrap();
        let refused = StatusServer::bind(all, None).await.unwrap_err();
        assert!(
            refused.to_string().contains("--metrics-token-file"),
            "{refused}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "short\n").unwrap();
        assert!(StatusServer::bind(all, Some(&path)).await.is_err());
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let address = started(Some(&path)).await;
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        for (field, taken) in [
            (String::new(), false),
            ("Bearer 0123456789abcdef".to_owned(), true),
            ("Bearer 0123456789abcdeg".to_owned(), false),
            ("Bearer ".to_owned(), false),
            (basic("me:0123456789abcdef"), true),
            (basic("0123456789abcdef"), false),
            (basic("0123456789abcdef:"), false),
            ("Basic %%%".to_owned(), false),
        ] {
            let given = match field.as_str() {
                "" => String::new(),
                field => format!("Authorization: {field}\r\n"),
            };
            let text = format!("GET /metrics HTTP/1.1\r\nHost: server.example\r\n{given}\r\n");
            let answer = ask(address, &text).await;
            let begin = if taken {
                "HTTP/1.1 200"
            } else {
                "HTTP/1.1 401"
            };
            assert!(answer.starts_with(begin), "{field}: {answer}");
        }
    }
}
