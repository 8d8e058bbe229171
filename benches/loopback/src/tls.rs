//! The system's TCP with rustls: one answer after the other on each connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use crate::stack::{Calls, Counted, Identity, NAME, PIECE, Result, Stack, UP, ZEROS, client_tls};

pub(crate) struct Tls {
    connector: TlsConnector,
    local: Ipv4Addr,
}

/// Segments that this network namespace sent, of all connections.
fn segments() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next(), lines.next());
    let mut both = names
        .unwrap_or_default()
        .split(' ')
        .zip(values.unwrap_or_default().split(' '));
    let sent = both.find(|(name, _)| *name == "OutSegs");
    sent.and_then(|(_, value)| value.parse().ok())
        .unwrap_or(f64::NAN)
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), mut left: u64) -> Result<()> {
    while left > 0 {
        let len = left.min(PIECE as u64);
        stream.write_all(&ZEROS[..len as usize]).await?;
        left -= len;
    }
    Ok(stream.flush().await?)
}

async fn read(stream: &mut (impl AsyncRead + Unpin), wanted: u64) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut left = wanted;
    while left > 0 {
        let most = left.min(PIECE as u64) as usize;
        match stream.read(&mut buffer[..most]).await? {
            0 => return Err("a short answer".into()),
            got => left -= got as u64,
        }
    }
    Ok(())
}

/// Answers requests for ever.
async fn answer(stream: TcpStream, acceptor: TlsAcceptor) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    loop {
        let wanted = stream.read_u64().await?;
        if wanted & UP == 0 {
            write(&mut stream, wanted).await?;
        } else {
            read(&mut stream, wanted & !UP).await?;
            write(&mut stream, 8).await?;
        }
    }
}

impl Stack for Tls {
    type Connection = Arc<Mutex<TlsStream<TcpStream>>>;

    fn serve(
        runtimes: &[Handle],
        certificate: &Path,
        _calls: Calls,
    ) -> Result<(SocketAddr, Counted)> {
        let [runtime] = runtimes else {
            return Err("there are no shards here".into());
        };
        let identity = Identity::new(certificate)?;
        let acceptor = TlsAcceptor::from(Arc::new(identity.server()?));
        let _context = runtime.enter();
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
        let listener: TcpListener = socket.listen(1024)?;
        let port = listener.local_addr()?.port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                // If it breaks off, the client says so.
                tokio::spawn(async move { answer(stream, acceptor).await.ok() });
            }
        });
        let counted = || json!({ "sent_datagrams": segments() });
        Ok(((Ipv4Addr::LOCALHOST, port).into(), Box::new(counted)))
    }

    fn client(certificate: &Path, locals: &[Ipv4Addr], calls: Calls) -> Result<Self> {
        let [local] = *locals else {
            return Err("TCP has one path".into());
        };
        let connector = TlsConnector::from(Arc::new(client_tls(certificate, calls)?));
        Ok(Self { connector, local })
    }

    async fn connect(&self, server: SocketAddr) -> Result<Self::Connection> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.local, 0).into())?;
        let stream = socket.connect(server).await?;
        stream.set_nodelay(true)?;
        let stream = self
            .connector
            .connect(ServerName::try_from(NAME)?, stream)
            .await?;
        Ok(Arc::new(Mutex::new(stream)))
    }

    async fn fetch(connection: &Self::Connection, bytes: u64, _calls: Calls) -> Result<()> {
        let mut stream = connection.lock().await;
        stream.write_u64(bytes).await?;
        stream.flush().await?;
        read(&mut *stream, bytes).await
    }

    async fn give(connection: &Self::Connection, bytes: u64, _calls: Calls) -> Result<()> {
        let mut stream = connection.lock().await;
        stream.write_u64(bytes | UP).await?;
        write(&mut *stream, bytes).await?;
        read(&mut *stream, 8).await
    }

    fn datagrams(_connection: &Self::Connection) -> f64 {
        segments()
    }
}
