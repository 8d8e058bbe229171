//! The server that is attacked: a process of its own, which answers requests for bytes.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mpquic::{Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig};

use super::heap::Held;
use crate::tls::Identity;

/// The most that one request is answered with.
const MAX_ANSWER: u32 = 64 << 20;

/// How jemalloc gives freed memory back soon, in its own words: the advice of the guide.
const GIVE_BACK: &str =
    "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,tcache_max:4096,retain:false";

/// What went wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Serves on a free port of the loopback address until the process is killed. Tells the address on its standard output,
/// and what it holds after each line of its standard input.
///
/// # Errors
///
/// If there is no socket to be had.
pub async fn serve(idle_timeout: Duration) -> Result<(), Error> {
    let identity = Identity::generate();
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(idle_timeout));
    let mut config =
        ServerConfig::with_single_cert(vec![identity.certificate.clone()], identity.key())?;
    config.transport(Arc::new(transport));
    let endpoint = Endpoint::server(config, &[SocketAddr::from(([127, 0, 0, 1], 0))])?;
    println!("{}", endpoint.local_addrs()[0]);
    std::thread::spawn(|| {
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            println!("{}", Held::now().to_line());
        }
    });
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await {
                answer_all(connection).await;
            }
        });
    }
    Ok(())
}

async fn answer_all(connection: Connection) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        // A client that breaks off gets no answer.
        tokio::spawn(async move { answer(send, recv).await });
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> Result<(), Error> {
    let mut request = [0; 4];
    recv.read_exact(&mut request).await?;
    let mut left = u32::from_be_bytes(request).min(MAX_ANSWER) as usize;
    let chunk = [0x5a; 16 * 1024];
    while left > 0 {
        let len = left.min(chunk.len());
        send.write_all(&chunk[..len]).await?;
        left -= len;
    }
    send.finish()?;
    Ok(())
}

/// A server process.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl ServerProcess {
    /// Starts this program again as a server, with the allocator of a shared library in place of the system's if one is
    /// given.
    ///
    /// # Errors
    ///
    /// If it does not start, or does not tell its address.
    pub fn start(idle_seconds: u64, allocator: Option<&str>) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        if let Some(library) = allocator {
            if !std::path::Path::new(library).is_file() {
                return Err(format!("there is no allocator {library}").into());
            }
            command.env("LD_PRELOAD", library);
            command.env("MALLOC_CONF", GIVE_BACK);
        }
        let mut child = command
            .args(["serve", "--idle", &idle_seconds.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let input = child.stdin.take().ok_or("no input of the server")?;
        let output = child.stdout.take().ok_or("no output of the server")?;
        let mut output = BufReader::new(output);
        output.read_line(&mut line)?;
        let address = line.trim().parse()?;
        Ok(Self {
            child,
            input,
            output,
            address,
        })
    }

    /// What its code has allocated and not freed.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn held(&mut self) -> Result<Held, Error> {
        self.input.write_all(b"held\n")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Held::from_line(&line).ok_or_else(|| "no answer of the server".into())
    }

    /// Bytes of memory that it has resident; 0 where the system does not tell.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes =
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kilobytes.unwrap_or(0) * 1024
    }

    /// Seconds of processor time that it has used, in hundredths; 0 where the system does not tell.
    pub fn processor_time(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        // The name, in parentheses, may have blanks.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = fields.split_whitespace().skip(11);
        let mut next = || {
            fields
                .next()
                .and_then(|field| field.parse::<u64>().ok())
                .unwrap_or(0)
        };
        next() + next()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
