//! A server's side of one connection, over a library that is polled.

use std::collections::BTreeMap;

use crate::{DATAGRAM_LEN, RESET, Request, body};

/// What came of writing to a stream.
pub enum Wrote {
    /// So many bytes, which may be none.
    Some(usize),
    /// The peer stopped the stream.
    Stopped(u64),
    /// The stream is gone.
    Gone,
}

/// What came of reading from a stream.
pub enum Read {
    /// So many bytes, and whether they are the last ones.
    Some(usize, bool),
    /// None yet.
    Nothing,
    /// The peer reset the stream.
    Reset(u64),
    /// The stream is gone.
    Gone,
}

/// One connection of a library.
pub trait Connection {
    /// Streams with something to read, as far as the library tells.
    fn readable(&mut self) -> Vec<u64>;
    fn read(&mut self, stream: u64, buf: &mut [u8]) -> Read;
    fn write(&mut self, stream: u64, data: &[u8], fin: bool) -> Wrote;
    fn reset(&mut self, stream: u64, code: u64);
    fn stop(&mut self, stream: u64, code: u64);
    fn close(&mut self, code: u64);
    fn send_datagram(&mut self, datagram: &[u8]);
    fn receive_datagram(&mut self, buf: &mut [u8]) -> Option<usize>;
}

/// Codes that a server was told, on any connection.
#[derive(Default)]
pub struct Heard {
    pub stopped: Option<u64>,
    pub closed: Option<u64>,
}

enum Answer {
    Body(usize),
    Reset(usize),
    Stopped,
    Closed,
}

/// The answers to one client.
#[derive(Default)]
pub struct Server {
    requests: BTreeMap<u64, Vec<u8>>,
    /// With how much of each is written.
    answers: Vec<(u64, Answer, usize)>,
}

/// So much is written at once.
const CHUNK: usize = 16 << 10;

impl Server {
    /// Reads what is there, and writes what fits.
    pub fn poll(&mut self, connection: &mut impl Connection, heard: &mut Heard) {
        for stream in connection.readable() {
            self.read(connection, stream);
        }
        self.answers
            .retain_mut(|(stream, answer, at)| go_on(connection, heard, *stream, answer, at));
        let mut datagram = [0; 2 * DATAGRAM_LEN];
        while let Some(len) = connection.receive_datagram(&mut datagram) {
            connection.send_datagram(&datagram[..len]);
        }
    }

    fn read(&mut self, connection: &mut impl Connection, stream: u64) {
        let mut buf = [0; 1_000];
        let request = self.requests.entry(stream).or_default();
        loop {
            match connection.read(stream, &mut buf) {
                Read::Some(len, fin) => {
                    request.extend_from_slice(&buf[..len]);
                    if fin {
                        break;
                    }
                }
                Read::Nothing => return,
                Read::Reset(_) | Read::Gone => {
                    self.requests.remove(&stream);
                    return;
                }
            }
        }
        let request = self.requests.remove(&stream).unwrap_or_default();
        let Some(Request { verb, number }) = Request::parse(&request) else {
            return connection.reset(stream, 1);
        };
        let answer = match verb.as_str() {
            "STOPPED" => Answer::Stopped,
            "CLOSED" => Answer::Closed,
            "RESET" => Answer::Reset(number),
            "CLOSE" => return connection.close(number as u64),
            _ => Answer::Body(number),
        };
        self.answers.push((stream, answer, 0));
    }
}

/// Goes on with an answer. Whether there is more of it to come.
fn go_on(
    connection: &mut impl Connection,
    heard: &mut Heard,
    stream: u64,
    answer: &Answer,
    at: &mut usize,
) -> bool {
    let code = match answer {
        Answer::Stopped => heard.stopped,
        Answer::Closed => heard.closed,
        Answer::Body(len) | Answer::Reset(len) => {
            let fin = matches!(answer, Answer::Body(_));
            loop {
                let before = *at;
                let chunk = body(*at, CHUNK.min(len - *at));
                match connection.write(stream, &chunk, fin && *at + chunk.len() == *len) {
                    Wrote::Some(count) => *at += count,
                    Wrote::Stopped(code) => {
                        heard.stopped = Some(code);
                        return false;
                    }
                    Wrote::Gone => return false,
                }
                if *at == *len {
                    break;
                }
                if !at.is_multiple_of(CHUNK) || *at == before {
                    return true;
                }
            }
            if !fin {
                connection.reset(stream, RESET);
            }
            return false;
        }
    };
    if let Some(code) = code {
        connection.write(stream, code.to_string().as_bytes(), true);
    }
    code.is_none()
}
