//! The names of targets: from the hosts file, or by asking the system's DNS servers, without a thread that waits.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, Resolver, TokioResolver};
use tokio::task::JoinSet;

/// How often it is looked whether the files below have changed.
const LOOK: Duration = Duration::from_secs(2);
/// What the system says of names: DNS servers, and addresses of its own.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// Answers that are kept, for as long as their servers say.
const CACHED: u64 = 4096;
/// Addresses of one name that are tried.
const ADDRESSES: usize = 16;
/// Sockets that one lookup opens: two families, two servers.
pub(crate) const SOCKETS: usize = 4;

/// When each file was changed last, as far as the system tells.
type Stamps = [Option<SystemTime>; FILES.len()];

/// What resolves the names of a server's clients. Answers are kept for all of them.
pub(crate) struct Names(Mutex<Read>);

struct Read {
    looked: Instant,
    stamps: Stamps,
    sources: Sources,
}

#[derive(Clone)]
struct Sources {
    /// `None` if the system's configuration makes no sense.
    resolver: Option<TokioResolver>,
    hosts: Arc<Hosts>,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
}

impl Names {
    /// As the system is set up now; its files are read again when they change.
    pub(crate) fn of_system() -> Self {
        Self(Mutex::new(Read {
            looked: Instant::now(),
            stamps: stamps(),
            sources: Sources::of_system(),
        }))
    }

    fn sources(&self) -> Sources {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if read.looked.elapsed() > LOOK {
            read.looked = Instant::now();
            let now = stamps();
            if now != read.stamps {
                read.stamps = now;
                read.sources = Sources::of_system();
            }
        }
        read.sources.clone()
    }

    /// The addresses of a name for which nobody is asked: an address as text, one of the hosts file, what is no name and has none.
    pub(crate) fn at_hand(&self, name: &str) -> Option<Answers> {
        let bare = name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(name).parse::<IpAddr>() {
            return Some(ip.into());
        }
        let Ok(name) = Name::from_utf8(name) else {
            return Some(Answers::default());
        };
        let known = in_hosts(&self.sources().hosts, &name);
        (!known.is_empty()).then(|| Answers {
            known,
            asking: JoinSet::new(),
        })
    }

    /// Begins to ask for the addresses of a name that is not [at hand](Self::at_hand). Dropping what it returns ends that.
    pub(crate) fn look_up(&self, name: &str) -> Answers {
        let mut answers = Answers::default();
        let Ok(name) = Name::from_utf8(name) else {
            return answers;
        };
        if let Some(resolver) = self.sources().resolver {
            for kind in [RecordType::AAAA, RecordType::A] {
                let (resolver, name) = (resolver.clone(), name.clone());
                answers.asking.spawn(async move {
                    // A family without an address, an unknown name, a server that is silent: nothing came.
                    let found = resolver.lookup(name, kind).await;
                    found.map_or_else(
                        |_| Vec::new(),
                        |found| {
                            let records = found.answers().iter();
                            records
                                .filter_map(|record| record.data.ip_addr())
                                .take(ADDRESSES)
                                .collect()
                        },
                    )
                });
            }
        }
        answers
    }
}

impl Sources {
    fn of_system() -> Self {
        let builder = TokioResolver::builder_tokio().unwrap_or_else(|_| {
            // resolv.conf(5): without the file, the server on this machine is asked.
            let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![local]);
            Resolver::builder_with_config(config, TokioRuntimeProvider::default())
        });
        let mut builder = builder;
        let options = builder.options_mut();
        options.use_hosts_file = ResolveHosts::Never;
        options.ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
        options.cache_size = CACHED;
        Self {
            resolver: builder.build().ok(),
            hosts: Arc::new(Hosts::from_system().unwrap_or_default()),
        }
    }
}

fn stamps() -> Stamps {
    FILES.map(|file| {
        Path::new(file)
            .metadata()
            .and_then(|about| about.modified())
            .ok()
    })
}

/// A name that the hosts file has is asked nowhere else, for neither family.
fn in_hosts(hosts: &Hosts, name: &Name) -> Vec<IpAddr> {
    let of = |kind| hosts.lookup_static_host(&Query::query(name.clone(), kind));
    let found = [of(RecordType::AAAA), of(RecordType::A)];
    let records = found.iter().flatten().flat_map(|found| found.answers());
    records
        .filter_map(|record| record.data.ip_addr())
        .take(ADDRESSES)
        .collect()
}

/// The addresses of a name, as they come.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    known: Vec<IpAddr>,
    asking: JoinSet<Vec<IpAddr>>,
}

impl Answers {
    /// The next ones; `None` once there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Vec<IpAddr>> {
        if !self.known.is_empty() {
            return Some(std::mem::take(&mut self.known));
        }
        loop {
            match self.asking.join_next().await? {
                Ok(found) if !found.is_empty() => return Some(found),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Whether one family's servers have not answered yet.
    pub(crate) fn more_may_come(&self) -> bool {
        !self.asking.is_empty()
    }

    /// One address, of whichever family comes first.
    #[cfg(test)]
    pub(crate) fn of(known: Vec<IpAddr>) -> Self {
        Self {
            known,
            asking: JoinSet::new(),
        }
    }
}

impl From<IpAddr> for Answers {
    fn from(ip: IpAddr) -> Self {
        Self {
            known: vec![ip],
            asking: JoinSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UdpSocket;

    fn hosts(text: &str) -> Hosts {
        let mut hosts = Hosts::default();
        hosts.read_hosts_conf(text.as_bytes()).unwrap();
        hosts
    }

    /// A resolver that asks a server at this address, and a hosts file of this text.
    fn names(server: std::net::SocketAddr, text: &str) -> Names {
        let mut local = NameServerConfig::udp(server.ip());
        local.connections[0].port = server.port();
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![local]);
        let resolver = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
        Names(Mutex::new(Read {
            looked: Instant::now() + Duration::from_secs(3600),
            stamps: stamps(),
            sources: Sources {
                resolver: resolver.build().ok(),
                hosts: Arc::new(hosts(text)),
            },
        }))
    }

    #[tokio::test]
    async fn what_the_hosts_file_has_is_asked_nowhere_else() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let text = "192.0.2.1 one.example One\n2001:db8::2 six.example\n";
        let names = names(silent.local_addr().unwrap(), text);
        for (name, ip) in [
            ("one.example", "192.0.2.1"),
            ("ONE.example.", "192.0.2.1"),
            ("one", "192.0.2.1"),
            ("six.example", "2001:db8::2"),
            ("192.0.2.9", "192.0.2.9"),
            ("2001:db8::9", "2001:db8::9"),
            ("[2001:db8::9]", "2001:db8::9"),
        ] {
            let mut answers = names.at_hand(name).unwrap();
            assert_eq!(
                answers.next().await,
                Some(vec![ip.parse().unwrap()]),
                "{name}"
            );
            assert_eq!(answers.next().await, None, "{name}");
        }
        assert_eq!(names.at_hand("a..b").unwrap().next().await, None);
        assert!(names.at_hand("two.example").is_none());
        assert!(
            silent.try_recv(&mut [0; 512]).is_err(),
            "the server was asked"
        );
    }

    #[tokio::test]
    async fn a_server_answers_once_and_then_the_cache() {
        use hickory_resolver::proto::op::{Message, OpCode};
        use hickory_resolver::proto::rr::{RData, Record, rdata::A};
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let names = names(server.local_addr().unwrap(), "");
        let answering = tokio::spawn(async move {
            // One question for each family.
            for _ in 0..2 {
                let mut buffer = [0; 512];
                let (len, from) = server.recv_from(&mut buffer).await.unwrap();
                let question = Message::from_vec(&buffer[..len]).unwrap();
                let query = question.queries[0].clone();
                let mut answer = Message::response(question.metadata.id, OpCode::Query);
                if query.query_type() == RecordType::A {
                    let data = RData::A(A::new(192, 0, 2, 7));
                    answer.add_answer(Record::from_rdata(query.name().clone(), 60, data));
                }
                answer.add_query(query);
                server
                    .send_to(&answer.to_vec().unwrap(), from)
                    .await
                    .unwrap();
            }
        });
        let mut answers = names.look_up("far.example.");
        assert_eq!(
            answers.next().await,
            Some(vec!["192.0.2.7".parse().unwrap()])
        );
        answering.await.unwrap();
        // Nobody answers any more.
        let mut answers = names.look_up("far.example.");
        assert_eq!(
            answers.next().await,
            Some(vec!["192.0.2.7".parse().unwrap()])
        );
    }
}
