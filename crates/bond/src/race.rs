//! From a target to a TCP connection: its addresses race (RFC 8305, Happy Eyeballs).

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::caps::{Share, Sockets};
use crate::names::Answers;
use crate::wire::Refusal;

/// Between two attempts, while none of the earlier ones has failed (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// How long IPv6 addresses may come after IPv4 ones without being behind them (RFC 8305 section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// Attempts of one race.
const ATTEMPTS: usize = 24;

/// The winner, with what it holds of its client's sockets.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) socket: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) held: Sockets,
}

/// Addresses that are to be tried: of both families in turn (RFC 8305 section 4), IPv6 first.
#[derive(Debug, Default)]
struct Queue {
    v6: VecDeque<SocketAddr>,
    v4: VecDeque<SocketAddr>,
    /// The last one was of IPv6.
    was_v6: bool,
}

impl Queue {
    fn push(&mut self, address: SocketAddr) {
        match address {
            SocketAddr::V6(_) => self.v6.push_back(address),
            SocketAddr::V4(_) => self.v4.push_back(address),
        }
    }

    fn pop(&mut self) -> Option<SocketAddr> {
        let v6_is_next = !self.v6.is_empty() && (!self.was_v6 || self.v4.is_empty());
        self.was_v6 = v6_is_next;
        if v6_is_next {
            self.v6.pop_front()
        } else {
            self.v4.pop_front()
        }
    }

    fn is_empty(&self) -> bool {
        self.v6.is_empty() && self.v4.is_empty()
    }
}

/// Connects to the first of a target's addresses that takes it, within the deadline. What is not `allowed` is not tried; each attempt
/// takes a socket of the client's `share`.
pub(crate) async fn race(
    mut answers: Answers,
    port: u16,
    allowed: impl Fn(IpAddr) -> bool,
    share: &Arc<Share>,
    deadline: Instant,
) -> Result<Connected, Refusal> {
    let mut why = Refusal::Unresolved;
    let mut queue = Queue::default();
    let mut attempts = JoinSet::new();
    let mut started = 0;
    let mut due = Instant::now();
    let mut more = true;
    let racing = async {
        loop {
            let may_start = !queue.is_empty() && started < ATTEMPTS;
            if !more && !may_start && attempts.is_empty() {
                return Err(why);
            }
            tokio::select! {
                found = answers.next(), if more => {
                    let Some(found) = found else { more = false; continue };
                    if why == Refusal::Unresolved {
                        why = Refusal::Denied;
                    }
                    let all_v4 = found.iter().all(IpAddr::is_ipv4);
                    if started == 0 && queue.is_empty() && all_v4 && answers.more_may_come() {
                        due = due.max(Instant::now() + RESOLUTION_DELAY);
                    } else if started == 0 {
                        due = Instant::now();
                    }
                    for ip in found.into_iter().filter(|ip| allowed(*ip)) {
                        queue.push((ip, port).into());
                    }
                }
                Some(ended) = attempts.join_next(), if !attempts.is_empty() => {
                    match ended {
                        Ok(Ok(connected)) => return Ok(connected),
                        Ok(Err(refusal)) => why = refusal,
                        Err(_) => why = Refusal::Failed,
                    }
                    // The next one need not wait for its turn.
                    due = Instant::now();
                }
                () = sleep_until(due), if may_start => {
                    due = Instant::now() + ATTEMPT_DELAY;
                    let Some(held) = share.take(1) else {
                        // One that runs may end, and leave its socket.
                        if attempts.is_empty() {
                            return Err(Refusal::Busy);
                        }
                        continue;
                    };
                    if let Some(address) = queue.pop() {
                        started += 1;
                        if matches!(why, Refusal::Denied) {
                            why = Refusal::Unreachable;
                        }
                        attempts.spawn(attempt(address, held));
                    }
                }
            }
        }
    };
    match timeout_at(deadline, racing).await {
        Ok(ended) => ended,
        Err(_) => Err(why),
    }
}

async fn attempt(address: SocketAddr, held: Sockets) -> Result<Connected, Refusal> {
    match TcpStream::connect(address).await {
        Ok(socket) => {
            // Whoever speaks through a proxy wants what it wrote to leave. A socket that does not take it works, too.
            let _ = socket.set_nodelay(true);
            Ok(Connected {
                socket,
                address,
                held,
            })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(Refusal::Refused),
        Err(_) => Err(Refusal::Unreachable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::Budget;
    use std::net::Ipv4Addr;
    use tokio::net::TcpListener;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns() {
        let mut queue = Queue::default();
        for ip in addresses(&["1.0.0.1", "1.0.0.2", "2a00::1", "2a00::2", "2a00::3"]) {
            queue.push((ip, 1).into());
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|address| address.ip().to_string())
            .collect();
        assert_eq!(
            order,
            ["2a00::1", "1.0.0.1", "2a00::2", "1.0.0.2", "2a00::3"]
        );
        assert!(queue.is_empty());
    }

    /// A listener whose queue is full does not answer: its address is a silent one.
    fn silent() -> (socket2::Socket, Vec<std::net::TcpStream>, u16) {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket
            .bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, 1), 0)).into())
            .unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let mut waiting = Vec::new();
        let short = Duration::from_millis(100);
        while let Ok(one) = std::net::TcpStream::connect_timeout(&address, short) {
            waiting.push(one);
        }
        (socket, waiting, address.port())
    }

    #[tokio::test]
    async fn a_silent_address_costs_a_quarter_of_a_second() {
        let (_silent, _waiting, port) = silent();
        let listener = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let share = Share::of(&Budget::new(Some(1024)));
        let answers = Answers::of(addresses(&["127.0.0.1", "127.0.0.2"]));
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs(10);
        let won = race(answers, port, |_| true, &share, deadline)
            .await
            .unwrap();
        assert_eq!(won.address, listener.local_addr().unwrap());
        let took = begun.elapsed();
        assert!(
            took >= ATTEMPT_DELAY && took < Duration::from_secs(5),
            "{took:?}"
        );
    }

    #[tokio::test]
    async fn an_address_that_refuses_costs_nothing_and_who_is_not_allowed_is_not_tried() {
        let listener = TcpListener::bind("127.0.0.3:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let share = Share::of(&Budget::new(Some(1024)));
        let deadline = Instant::now() + Duration::from_secs(10);
        let with = |texts: &[&str]| Answers::of(addresses(texts));
        let not_third = |ip: IpAddr| ip != IpAddr::from([127, 0, 0, 3]);
        // Of addresses that refuse, the last one is reached long before the turns of all have come.
        let many: Vec<_> = (10..18).map(|last| format!("127.0.0.{last}")).collect();
        let mut texts: Vec<_> = many.iter().map(String::as_str).collect();
        texts.push("127.0.0.3");
        let begun = Instant::now();
        assert!(
            race(with(&texts), port, |_| true, &share, deadline)
                .await
                .is_ok()
        );
        assert!(begun.elapsed() < 4 * ATTEMPT_DELAY, "{:?}", begun.elapsed());
        let refused = race(with(&["127.0.0.3"]), port, not_third, &share, deadline).await;
        assert_eq!(refused.unwrap_err(), Refusal::Denied);
        let refused = race(with(&["127.0.0.9"]), port, |_| true, &share, deadline).await;
        assert_eq!(refused.unwrap_err(), Refusal::Refused);
        let refused = race(with(&[]), port, |_| true, &share, deadline).await;
        assert_eq!(refused.unwrap_err(), Refusal::Unresolved);
        let none = Share::of(&Budget::new(Some(1)));
        let held = none.take(1);
        let refused = race(with(&["127.0.0.3"]), port, |_| true, &none, deadline).await;
        assert_eq!(refused.unwrap_err(), Refusal::Busy);
        drop(held);
    }
}
