//! The local port: SOCKS5 and HTTP CONNECT, told apart by the first byte.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fast_socks5::server::Socks5ServerProtocol;
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, Socks5Command, new_udp_header, parse_udp_request};
use mpquic_peer::Passwords;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::client::{Client, NotOpened, Uplink};
use crate::live::Load;
use crate::splice::splice;
use crate::wire::{Datagram, Refusal, Request, Target, flow};

/// How long a program may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of an HTTP request.
const LONGEST_HEAD: usize = 16 * 1024;
/// Header fields of a request, at most.
const FIELDS: usize = 64;
const SOCKS5: u8 = 5;
/// The largest UDP payload.
const LARGEST: usize = 65_535;

/// Serves one program's connection. What goes wrong is told to the program in its protocol.
pub(crate) async fn serve(socket: TcpStream, client: &Arc<Client>) {
    // One that does not take it works, too.
    let _ = socket.set_nodelay(true);
    let mut first = [0];
    match timeout(PATIENCE, socket.peek(&mut first)).await {
        Ok(Ok(1)) => {}
        _ => return,
    }
    if first[0] == SOCKS5 {
        socks(socket, client).await;
    } else {
        // It may be gone before it has its answer.
        let _ = http(socket, client).await;
    }
}

/// Leads a connection to a target that it does not name.
pub(crate) async fn forward(socket: TcpStream, target: Target, client: &Client) {
    // One that does not take it works, too.
    let _ = socket.set_nodelay(true);
    match open(client, target).await {
        Ok(Opened { send, recv }) => {
            let _counted = client.in_use.tcp();
            let _ = splice(socket, Bytes::new(), send, recv, client.idle(), None).await;
        }
        // As if the target had refused it.
        Err(_) => drop(socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))),
    }
}

async fn open(client: &Client, target: Target) -> Result<Opened, NotOpened> {
    let name = target.to_string();
    let opening = async {
        let uplink = client.uplink().await?;
        uplink.open(&Request::Tcp(target)).await
    };
    match opening.await {
        Ok((send, recv)) => Ok(Opened { send, recv }),
        Err(why) => {
            client.journal.line(format_args!("TCP to {name}: {why}"));
            Err(why)
        }
    }
}

struct Opened {
    send: mpquic::SendStream,
    recv: mpquic::RecvStream,
}

impl From<TargetAddr> for Target {
    fn from(target: TargetAddr) -> Self {
        match target {
            TargetAddr::Ip(address) => Self::Address(address),
            TargetAddr::Domain(name, port) => Self::Name(name, port),
        }
    }
}

const fn reply(why: &NotOpened) -> ReplyError {
    match why {
        NotOpened::Refused(Refusal::Denied) => ReplyError::ConnectionNotAllowed,
        NotOpened::Refused(Refusal::Unresolved | Refusal::Unreachable) => {
            ReplyError::HostUnreachable
        }
        NotOpened::Refused(Refusal::Refused) => ReplyError::ConnectionRefused,
        NotOpened::Refused(Refusal::Failed | Refusal::Busy) => ReplyError::GeneralFailure,
        NotOpened::Away => ReplyError::NetworkUnreachable,
    }
}

async fn socks(socket: TcpStream, client: &Arc<Client>) {
    let Ok(local) = socket.local_addr() else {
        return;
    };
    let asking = async {
        let protocol = match client.passwords() {
            None => Socks5ServerProtocol::accept_no_auth(socket).await?,
            Some(passwords) => {
                let check = |name: String, password: String| passwords.takes(&name, &password);
                Socks5ServerProtocol::accept_password_auth(socket, check)
                    .await?
                    .0
            }
        };
        protocol.read_command().await
    };
    let Ok(Ok((protocol, command, target))) = timeout(PATIENCE, asking).await else {
        return;
    };
    match command {
        Socks5Command::TCPConnect => match open(client, target.into()).await {
            Ok(Opened { send, recv }) => {
                // RFC 1928 section 6 wants the address that the server is bound to; nobody uses it.
                if let Ok(socket) = protocol.reply_success(unspecified()).await {
                    let _counted = client.in_use.tcp();
                    let _ = splice(socket, Bytes::new(), send, recv, client.idle(), None).await;
                }
            }
            Err(why) => drop(protocol.reply_error(&reply(&why)).await),
        },
        Socks5Command::UDPAssociate => {
            // A program that speaks IPv4 may have come to an IPv6 wildcard: it sends its datagrams by IPv4, too.
            let bound = UdpSocket::bind((local.ip().to_canonical(), 0)).await;
            let address = bound
                .as_ref()
                .ok()
                .and_then(|socket| socket.local_addr().ok());
            let (Ok(datagrams), Some(address)) = (bound, address) else {
                return drop(protocol.reply_error(&ReplyError::GeneralFailure).await);
            };
            let opened = match client.uplink().await {
                Ok(uplink) => uplink.open(&Request::Udp).await.map(|both| (uplink, both)),
                Err(why) => Err(why),
            };
            match opened {
                Ok((uplink, (send, recv))) => {
                    if let Ok(control) = protocol.reply_success(address).await {
                        let _counted = client.in_use.udp();
                        associate(control, datagrams, uplink, send, recv).await;
                    }
                }
                Err(why) => {
                    client.journal.line(format_args!("UDP: {why}"));
                    drop(protocol.reply_error(&reply(&why)).await);
                }
            }
        }
        Socks5Command::TCPBind => {
            let _ = protocol.reply_error(&ReplyError::CommandNotSupported).await;
        }
    }
}

const fn unspecified() -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0)
}

/// Passes datagrams while the program holds its control connection (RFC 1928 section 7), and the flow's stream lives.
async fn associate(
    mut control: TcpStream,
    datagrams: UdpSocket,
    uplink: Uplink,
    mut send: mpquic::SendStream,
    mut recv: mpquic::RecvStream,
) {
    let number = flow(send.id());
    let Ok(program) = control.peer_addr() else {
        return;
    };
    if let Some(mut incoming) = uplink.flows.open(number) {
        let mut buffer = vec![0; LARGEST];
        // Where the program's datagrams come from; the answers go there.
        let mut from = None;
        let mut load = Load::default();
        let passing = async {
            loop {
                tokio::select! {
                    received = datagrams.recv_from(&mut buffer) => {
                        let Ok((len, source)) = received else { continue };
                        if source.ip().to_canonical() != program.ip().to_canonical() {
                            continue;
                        }
                        let Ok((0, target, payload)) = parse_udp_request(&buffer[..len]).await else {
                            continue; // no datagram of SOCKS5, or a fragment, which RFC 1928 lets us drop
                        };
                        from = Some(source);
                        let datagram = Datagram {
                            flow: number,
                            target: target.into(),
                            payload: Bytes::copy_from_slice(payload),
                        };
                        uplink.lane.send(uplink.connection(), &mut load, &datagram);
                    }
                    datagram = incoming.recv() => {
                        let Some(datagram) = datagram else { return };
                        let (Some(to), Target::Address(source)) = (from, datagram.target) else { continue };
                        let Ok(mut packet) = new_udp_header(source) else { continue };
                        packet.extend_from_slice(&datagram.payload);
                        let _ = datagrams.send_to(&packet, to).await;
                    }
                }
            }
        };
        let mut end = [0; 1];
        tokio::select! {
            () = passing => {}
            // The program says nothing here any more: it only ends it.
            _ = control.read(&mut end) => {}
            _ = recv.received_reset() => {}
        }
        uplink.flows.close(number);
    }
    // Over already is fine.
    let _ = send.finish();
}

async fn http(mut socket: TcpStream, client: &Client) -> io::Result<()> {
    let mut head = BytesMut::new();
    let asked = timeout(PATIENCE, async {
        loop {
            if socket.read_buf(&mut head).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            match parse(&head) {
                Ok(None) if head.len() < LONGEST_HEAD => {}
                Ok(None) => return Ok(Err("431 Request Header Fields Too Large")),
                Ok(Some(asked)) => return Ok(Ok(asked)),
                Err(status) => return Ok(Err(status)),
            }
        }
    });
    let answer = match asked
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
    {
        Ok(_) if !is_welcome(&head, client.passwords()) => {
            "407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"mpquic-bond\""
        }
        Ok((len, target)) => match open(client, target).await {
            Ok(Opened { send, recv }) => {
                socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                // What follows the head is the first of the data.
                let first = head.split_off(len).freeze();
                let _counted = client.in_use.tcp();
                splice(socket, first, send, recv, client.idle(), None).await?;
                return Ok(());
            }
            Err(NotOpened::Refused(Refusal::Denied)) => "403 Forbidden",
            Err(NotOpened::Refused(Refusal::Busy)) => "503 Service Unavailable",
            Err(_) => "502 Bad Gateway",
        },
        Err(status) => status,
    };
    let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await
}

/// Whether a whole head has a name and password that are taken, if one is needed.
fn is_welcome(head: &[u8], passwords: Option<&Passwords>) -> bool {
    let Some(passwords) = passwords else {
        return true;
    };
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let is_whole = request.parse(head).is_ok_and(|parsed| parsed.is_complete());
    let fields = request.headers.iter();
    let mut given = fields.filter(|field| field.name.eq_ignore_ascii_case("proxy-authorization"));
    is_whole
        && given.any(|field| {
            let text = std::str::from_utf8(field.value);
            text.is_ok_and(|text| passwords.takes_basic(text))
        })
}

/// The length of a request's head, and the target that it names; `None` if there is more to come, and a status if it is not for us.
fn parse(head: &[u8]) -> Result<Option<(usize, Target)>, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let len = match request.parse(head) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err("400 Bad Request"),
    };
    if request.method != Some("CONNECT") {
        return Err("405 Method Not Allowed");
    }
    let authority = request.path.unwrap_or_default();
    if let Ok(address) = authority.parse() {
        return Ok(Some((len, Target::Address(address))));
    }
    let (name, port) = authority.rsplit_once(':').ok_or("400 Bad Request")?;
    let port = port.parse().map_err(|_| "400 Bad Request")?;
    if name.is_empty() || name.len() > 255 {
        return Err("400 Bad Request");
    }
    Ok(Some((len, Target::Name(name.to_owned(), port))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_connect_is_read() {
        let whole = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\nfirst";
        let (len, target) = parse(whole).unwrap().unwrap();
        assert_eq!(&whole[len..], b"first");
        assert_eq!(target, Target::Name("example.com".into(), 443));
        assert_eq!(parse(&whole[..len - 1]), Ok(None));
        let v6 = parse(b"CONNECT [::1]:80 HTTP/1.1\r\n\r\n")
            .unwrap()
            .unwrap()
            .1;
        assert_eq!(v6, Target::Address("[::1]:80".parse().unwrap()));
    }

    #[test]
    fn other_requests_get_a_status() {
        assert_eq!(
            parse(b"GET / HTTP/1.1\r\n\r\n"),
            Err("405 Method Not Allowed")
        );
        for head in [
            "CONNECT example.com HTTP/1.1",
            "CONNECT :1 HTTP/1.1",
            "CONNECT a:b HTTP/1.1",
            "\x16\x03\x01",
        ] {
            let head = format!("{head}\r\n\r\n");
            assert_eq!(parse(head.as_bytes()), Err("400 Bad Request"), "{head}");
        }
    }
}
