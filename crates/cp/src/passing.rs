//! Contents that pass through: of a file of the server to a pipe, and of a pipe to a file of the server.

use std::fmt;

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::client::{Client, unexpected};
use crate::content::{self, NotSent};
use crate::error::Error;
use crate::name::Name;
use crate::progress::Progress;
use crate::wire::{self, Answer, Digest, Refusal, RefusalKind, Request};

/// What was passed on of a file, so that it goes on there over another connection.
#[derive(Clone, Default)]
pub struct Passed {
    pub(crate) sum: Sha256,
    pub(crate) len: u64,
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passed({} bytes)", self.len)
    }
}

impl Passed {
    /// Bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Client {
    /// Writes the contents of a file of the server to `out`, as they come. `passed` is what an earlier connection has written there of
    /// this file: nothing at first.
    ///
    /// # Errors
    ///
    /// If there is no such file, `out` takes no more, the connection breaks, what came is not what was sent, or the file is another one
    /// than that of which `passed` is the beginning.
    pub async fn get_to(
        &self,
        name: &Name,
        out: &mut (impl AsyncWrite + Unpin),
        passed: &mut Passed,
        progress: &Progress,
    ) -> Result<(), Error> {
        let have = passed.len;
        let digest = (have > 0).then(|| Digest(passed.sum.clone().finalize().into()));
        let (content, mut recv) = self.ask(name, have, digest).await?;
        progress.expect(content.size);
        if content.from != have {
            return Err(Error::Changed(name.clone()));
        }
        progress.resumed(have);
        while passed.len < content.size {
            let left = content.size - passed.len;
            let chunk = content::chunk(&mut recv, left).await?;
            let written = out.write_all(&chunk).await;
            written.map_err(|source| out_of("standard output", source))?;
            passed.sum.update(&chunk);
            passed.len += chunk.len() as u64;
            progress.moved(chunk.len() as u64);
            if let Some(throttle) = self.throttle() {
                throttle.passed(chunk.len()).await;
            }
        }
        let flushed = out.flush().await;
        flushed.map_err(|source| out_of("standard output", source))?;
        let mut digest = [0; 32];
        recv.read_exact(&mut digest).await?;
        if passed.sum.clone().finalize()[..] != digest {
            return Err(Error::Damaged(name.clone()));
        }
        progress.file_done(name, content.size, false);
        Ok(())
    }

    /// Puts what `from` has, until its end, to a file of the server, which gets its name when all is there. A file of this name is
    /// replaced. Nothing is left of what was interrupted.
    ///
    /// # Errors
    ///
    /// If the server does not take it, `from` cannot be read, or the connection breaks.
    pub async fn put_from(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        name: &Name,
        progress: &Progress,
    ) -> Result<(), Error> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        let request = Request::Stream { name: name.clone() };
        let asked = self.request(&request, false).await;
        let (mut send, mut recv, answer) = asked.map_err(|error| match error {
            Error::Refused { refusal, .. } if refusal.why.contains("unknown variant") => {
                let why = "this server is older, and takes files only, whose size is known";
                Error::refused(name, Refusal::new(RefusalKind::Denied, why))
            }
            error => error,
        })?;
        if answer != Answer::Ready {
            return Err(unexpected(&answer));
        }
        let mut size = 0;
        let sent = content::send_pieces(&mut send, from, self.throttle(), |bytes| {
            size += bytes;
            progress.moved(bytes);
        });
        match sent.await {
            // The server's answer says why it takes no more.
            Ok(()) | Err(NotSent::Stream(mpquic::WriteError::Stopped(_))) => {}
            Err(NotSent::Stream(error)) => return Err(error.into()),
            Err(NotSent::File(error)) => return Err(out_of("standard input", error)),
        }
        match wire::receive(&mut recv).await? {
            Some(Answer::Done) => {}
            Some(Answer::Refused(refusal)) => return Err(Error::refused(name, refusal)),
            Some(other) => return Err(unexpected(&other)),
            None => return Err(Error::Malformed("an empty answer".to_owned())),
        }
        progress.expect(size);
        progress.file_done(name, size, false);
        Ok(())
    }
}

fn out_of(path: &str, source: std::io::Error) -> Error {
    let path = path.to_owned();
    Error::File { path, source }
}
