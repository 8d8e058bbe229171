//! A client's side of one connection, over a library that is polled.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::server::{Connection, Read, Wrote};
use crate::{CLOSE_BY_CLIENT, DATAGRAM_LEN, DATAGRAMS, Download, RESET_LEN, Request, STOP};
use crate::{STOPPED_LEN, asks_early};

/// How long a client waits for datagrams before it sends those again that are not back.
const DATAGRAM_WAIT: Duration = Duration::from_millis(300);

/// A request and its answer.
struct Ask {
    stream: u64,
    request: Vec<u8>,
    written: usize,
    first: Vec<u8>,
    download: Download,
    end: Option<Read>,
}

impl Ask {
    /// Writes what is left of the request, and reads what is there.
    fn poll(&mut self, connection: &mut impl Connection) {
        if self.written < self.request.len() {
            match connection.write(self.stream, &self.request[self.written..], true) {
                Wrote::Some(count) => self.written += count,
                Wrote::Stopped(_) => self.written = self.request.len(),
                // The peer may have no room for it yet.
                Wrote::Gone => return,
            }
        }
        let mut buf = [0; 16 << 10];
        while self.end.is_none() {
            match connection.read(self.stream, &mut buf) {
                Read::Some(len, fin) => {
                    self.download.add(&buf[..len]);
                    if self.first.len() < 100 {
                        self.first.extend_from_slice(&buf[..len.min(100)]);
                    }
                    if fin {
                        self.end = Some(Read::Some(0, true));
                    }
                }
                Read::Reset(code) => self.end = Some(Read::Reset(code)),
                Read::Nothing | Read::Gone => return,
            }
        }
    }
}

/// The downloads of one connection, and what its case is about.
pub struct Client {
    case: String,
    sizes: Vec<usize>,
    asks: Vec<Ask>,
    acts: Vec<Ask>,
    back: BTreeSet<u8>,
    send_at: Option<Instant>,
    quarter_told: bool,
    next: u64,
}

/// What the program is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// A quarter of the first file is there.
    Quarter,
    /// Print these lines and close.
    Done(Vec<String>),
}

impl Client {
    /// `first`: the connection is only made for what the second one goes on with.
    pub fn new(case: &str, sizes: &[usize], first: bool) -> Self {
        let case = if first { "" } else { case };
        let sizes = if first { vec![1] } else { sizes.to_vec() };
        let mut this = Self {
            case: case.into(),
            asks: Vec::new(),
            acts: Vec::new(),
            back: BTreeSet::new(),
            send_at: None,
            quarter_told: false,
            next: 0,
            sizes,
        };
        this.asks = (this.sizes.clone().into_iter())
            .map(|size| this.ask("GET", size))
            .collect();
        this
    }

    /// Whether it may ask before the handshake is complete.
    pub fn asks_early(&self) -> bool {
        asks_early(&self.case)
    }

    fn ask(&mut self, verb: &str, number: usize) -> Ask {
        let stream = self.next;
        self.next += 4;
        Ask {
            stream,
            request: Request::line(verb, number),
            written: 0,
            first: Vec::new(),
            download: Download::default(),
            end: None,
        }
    }

    /// When to call [`Self::poll`] though nothing arrived.
    pub fn timer(&self) -> Option<Instant> {
        self.send_at
    }

    pub fn poll(&mut self, connection: &mut impl Connection) -> Step {
        for ask in &mut self.asks {
            ask.poll(connection);
        }
        if !self.quarter_told && self.asks[0].download.count >= self.sizes[0] / 4 {
            self.quarter_told = true;
            return Step::Quarter;
        }
        if self.asks.iter().any(|ask| ask.end.is_none()) {
            return Step::Nothing;
        }
        let Some(fact) = self.act(connection) else {
            return Step::Nothing;
        };
        let asks = std::mem::take(&mut self.asks);
        let mut lines = Vec::new();
        for (ask, size) in asks.into_iter().zip(&self.sizes) {
            assert_eq!(ask.download.count, *size);
            lines.push(ask.download.line());
        }
        lines.extend(Some(fact).filter(|fact| !fact.is_empty()));
        connection.close(CLOSE_BY_CLIENT);
        Step::Done(lines)
    }

    /// Goes on with what a case is about. The fact that came of it, which is empty where there is nothing to tell.
    fn act(&mut self, connection: &mut impl Connection) -> Option<String> {
        match self.case.as_str() {
            "datagrams" => return self.datagrams(connection),
            "reset" => self.act_once("RESET", RESET_LEN),
            "stop" => self.act_once("GET", STOPPED_LEN),
            "close-server" => self.act_once("CLOSE", 19),
            "close-client" => self.act_once("CLOSED", 0),
            _ => return Some(String::new()),
        }
        for act in &mut self.acts {
            act.poll(connection);
        }
        let act = &self.acts[0];
        match self.case.as_str() {
            "stop" if self.acts.len() == 1 && act.download.count > 0 => {
                connection.stop(act.stream, STOP);
                self.acts[0].end = Some(Read::Gone);
                let mut ask = self.ask("STOPPED", 0);
                ask.poll(connection);
                self.acts.push(ask);
                None
            }
            "stop" => told(self.acts.get(1)?, "stopped"),
            "close-client" => told(act, "closed"),
            "reset" => match act.end {
                Some(Read::Reset(code)) => Some(format!("reset {code}")),
                _ => None,
            },
            _ => None,
        }
    }

    fn act_once(&mut self, verb: &str, number: usize) {
        if self.acts.is_empty() {
            let ask = self.ask(verb, number);
            self.acts.push(ask);
        }
    }

    /// Sends datagrams until all are back: those that got lost, again.
    fn datagrams(&mut self, connection: &mut impl Connection) -> Option<String> {
        let mut datagram = [0; 2 * DATAGRAM_LEN];
        while let Some(len) = connection.receive_datagram(&mut datagram) {
            assert_eq!(len, DATAGRAM_LEN);
            self.back.insert(datagram[0]);
        }
        if self.back.len() == usize::from(DATAGRAMS) {
            return Some(format!("datagrams {DATAGRAMS}"));
        }
        let now = Instant::now();
        if self.send_at.is_none_or(|at| at <= now) {
            for number in (0..DATAGRAMS).filter(|number| !self.back.contains(number)) {
                connection.send_datagram(&[number; DATAGRAM_LEN]);
            }
            self.send_at = Some(now + DATAGRAM_WAIT);
        }
        None
    }
}

/// What the server heard.
fn told(act: &Ask, fact: &str) -> Option<String> {
    act.end.as_ref()?;
    Some(format!("{fact} {}", String::from_utf8_lossy(&act.first)))
}

/// The lines of a client whose connection the server closed with this code.
pub fn closed_by_server(client: Client, code: u64) -> Vec<String> {
    assert_eq!(client.case, "close-server", "closed with {code}");
    let mut lines: Vec<_> = (client.asks.into_iter())
        .map(|ask| ask.download.line())
        .collect();
    lines.push(format!("closed {code}"));
    lines
}
