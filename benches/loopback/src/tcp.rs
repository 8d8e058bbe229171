//! The system's TCP, with the same AEAD in user space: records of 16 KiB, as TLS has them, without the rest of TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use rustls::Side;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::seal::{TAG, keys, seal};
use crate::stack::{Calls, Counted, PIECE, Result, Stack, ZEROS};

/// Bytes of the application in a record, and bytes of a record's header (RFC 8446 section 5.2).
const PAYLOAD: usize = 1 << 14;
const HEADER: usize = 5;
const RECORD: usize = HEADER + PAYLOAD + TAG;

/// Bytes that one system call reads at most.
const READ: usize = 16 * RECORD;

/// Answers requests for ever.
async fn answer(mut stream: TcpStream) -> Result<()> {
    let keys = keys(Side::Server)?;
    let mut output = vec![0; PIECE / PAYLOAD * RECORD];
    let mut number = 0;
    loop {
        let mut left = stream.read_u64().await?;
        while left > 0 {
            // As much as the application writes at once.
            let mut end = 0;
            for piece in ZEROS.chunks(PAYLOAD) {
                let len = left.min(PAYLOAD as u64) as usize;
                if len == 0 {
                    break;
                }
                let record = &mut output[end..end + HEADER + len + TAG];
                record[3..HEADER].copy_from_slice(&((len + TAG) as u16).to_be_bytes());
                record[HEADER..HEADER + len].copy_from_slice(&piece[..len]);
                seal(&keys.local, number, record, HEADER)?;
                (left, end, number) = (left - len as u64, end + record.len(), number + 1);
            }
            stream.write_all(&output[..end]).await?;
        }
    }
}

/// A client's connection.
pub(crate) struct Connected {
    stream: TcpStream,
    keys: rustls::quic::Keys,
    number: u64,
    buffer: Vec<u8>,
}

impl Connected {
    async fn fetch(&mut self, wanted: u64) -> Result<()> {
        self.stream.write_u64(wanted).await?;
        let mut application = vec![0; PIECE];
        let (mut got, mut filled, mut place) = (0, 0, 0);
        while got < wanted {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                return Err("a short answer".into());
            }
            filled += read;
            let mut start = 0;
            while let Some(header) = self.buffer[start..filled].first_chunk::<HEADER>() {
                let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
                let end = start + HEADER + len;
                if end > filled {
                    break;
                }
                let (header, rest) = self.buffer[start..end].split_at_mut(HEADER);
                let key = &self.keys.remote.packet;
                let plain = key.decrypt_in_place(self.number, header, rest)?;
                if place + plain.len() > application.len() {
                    place = 0;
                }
                application[place..place + plain.len()].copy_from_slice(plain);
                place += plain.len();
                got += plain.len() as u64;
                self.number += 1;
                start = end;
            }
            self.buffer.copy_within(start..filled, 0);
            filled -= start;
        }
        Ok(())
    }
}

pub(crate) struct Tcp;

impl Stack for Tcp {
    type Connection = Arc<Mutex<Connected>>;

    fn serve(
        runtimes: &[Handle],
        _certificate: &Path,
        _calls: Calls,
    ) -> Result<(SocketAddr, Counted)> {
        let [runtime] = runtimes else {
            return Err("there are no shards here".into());
        };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let _context = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // If it breaks off, the client says so.
                tokio::spawn(async move { answer(stream).await.ok() });
            }
        });
        Ok((address, Box::new(|| Value::Null)))
    }

    fn client(_certificate: &Path, _locals: &[Ipv4Addr], _calls: Calls) -> Result<Self> {
        Ok(Self)
    }

    async fn connect(&self, server: SocketAddr) -> Result<Self::Connection> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Arc::new(Mutex::new(Connected {
            stream,
            keys: keys(Side::Client)?,
            number: 0,
            buffer: vec![0; READ],
        })))
    }

    async fn fetch(connection: &Self::Connection, bytes: u64, _calls: Calls) -> Result<()> {
        connection.lock().await.fetch(bytes).await
    }
}
