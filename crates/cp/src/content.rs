//! The contents of a file on their way: from a file to a stream, and from a stream to a part.

use std::io::{self, Read as _};

use bytes::{Bytes, BytesMut};
use cap_std::fs::Dir;
use mpquic::{ReadError, ReadExactError, RecvStream, SendStream, VarInt, WriteError};
use mpquic_peer::Throttle;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};

use crate::error::Error;
use crate::name::Name;
use crate::part::Part;
use crate::tree::{self, Hidden};
use crate::wire::{Digest, Entry};

/// Bytes that are read, hashed and written at a time.
const CHUNK: usize = 256 * 1024;
/// The code with which a stream is reset whose file cannot be read to its end.
pub(crate) const BROKEN: VarInt = VarInt::from_u32(2);

/// Reads at most `limit` bytes into `sum`. Returns how many there were.
pub(crate) async fn hash(
    file: &mut (impl AsyncRead + Unpin),
    limit: u64,
    sum: &mut Sha256,
) -> io::Result<u64> {
    let mut file = file.take(limit);
    let mut chunk = vec![0; CHUNK];
    let mut len = 0;
    loop {
        let count = file.read(&mut chunk).await?;
        if count == 0 {
            return Ok(len);
        }
        sum.update(&chunk[..count]);
        len += count as u64;
    }
}

/// Bytes of a SHA-256.
pub(crate) const DIGEST: usize = 32;
/// The contents of a file of so many bytes at most are read as it is opened, and received as a whole.
pub(crate) const SMALL: u64 = 64 * 1024;

/// A file from which is sent, and what was read of it.
pub(crate) struct Source {
    pub(crate) file: File,
    pub(crate) size: u64,
    /// All of a small file; empty if it is read piece by piece.
    contents: Bytes,
    sum: Sha256,
    at: u64,
}

/// Why contents were not sent.
#[derive(Debug)]
pub(crate) enum NotSent {
    File(io::Error),
    Stream(WriteError),
}

impl Source {
    /// Opens a file below a folder. Waits for the disk.
    pub(crate) fn open(dir: &Dir, name: &Name, hidden: &Hidden) -> io::Result<(Self, Entry)> {
        let (mut file, mut entry) = tree::read(dir, name, hidden)?;
        let mut contents = Vec::new();
        if entry.size <= SMALL {
            contents.reserve_exact(entry.size as usize);
            (&mut file).take(entry.size).read_to_end(&mut contents)?;
            // It may have become shorter.
            entry.size = contents.len() as u64;
        }
        let source = Self {
            file: File::from_std(file),
            size: entry.size,
            contents: contents.into(),
            sum: Sha256::new(),
            at: 0,
        };
        Ok((source, entry))
    }

    /// Whether its first `have` bytes have this digest. If so, it goes on behind them, else at the beginning.
    pub(crate) async fn begins_with(&mut self, have: u64, digest: Digest) -> io::Result<bool> {
        if have == 0 || have > self.size {
            return Ok(false);
        }
        match self.hash_beginning(have).await? {
            Some(sum) => self.go_on(have, sum, digest).await,
            None => {
                self.file.rewind().await?;
                Ok(false)
            }
        }
    }

    /// The hash of its first `have` bytes, which are no more than it had when it was opened; `None` if it became shorter.
    pub(crate) async fn hash_beginning(&mut self, have: u64) -> io::Result<Option<Sha256>> {
        let mut sum = Sha256::new();
        if !self.contents.is_empty() {
            sum.update(&self.contents[..have as usize]);
            return Ok(Some(sum));
        }
        let whole = hash(&mut self.file, have, &mut sum).await? == have;
        Ok(whole.then_some(sum))
    }

    /// Goes on behind the first `have` bytes, which have this hash, if they have this digest; else at the beginning.
    pub(crate) async fn go_on(
        &mut self,
        have: u64,
        sum: Sha256,
        digest: Digest,
    ) -> io::Result<bool> {
        let same = sum.clone().finalize()[..] == digest.0;
        if same {
            (self.sum, self.at) = (sum, have);
        }
        self.file.seek(io::SeekFrom::Start(self.at)).await?;
        Ok(same)
    }

    /// Where it goes on.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// Sends the rest and the SHA-256 of the whole. `sent` is told of each piece; the throttle holds it up.
    pub(crate) async fn send(
        mut self,
        stream: &mut SendStream,
        throttle: Option<&Throttle>,
        sent: impl Fn(u64),
    ) -> Result<(), NotSent> {
        while self.at < self.size {
            let chunk = self.next().await.map_err(|error| {
                // The stream must not end as if all were there.
                let _ = stream.reset(BROKEN);
                NotSent::File(error)
            })?;
            let count = chunk.len();
            self.sum.update(&chunk);
            self.at += count as u64;
            let written = stream.write_chunk(chunk).await;
            written.map_err(NotSent::Stream)?;
            sent(count as u64);
            if let Some(throttle) = throttle {
                throttle.passed(count).await;
            }
        }
        let digest = self.sum.finalize();
        stream.write_all(&digest).await.map_err(NotSent::Stream)
    }

    /// What comes next, at least a byte.
    async fn next(&mut self) -> io::Result<Bytes> {
        if !self.contents.is_empty() {
            return Ok(self.contents.slice(self.at as usize..));
        }
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let mut chunk = BytesMut::with_capacity(CHUNK.min(left));
        let mut file = (&mut self.file).take(CHUNK.min(left) as u64);
        if file.read_buf(&mut chunk).await? == 0 {
            let why = format!("it became shorter than {} bytes meanwhile", self.size);
            return Err(io::Error::other(why));
        }
        Ok(chunk.freeze())
    }
}

/// Sends what `from` has until its end in pieces, an empty one, and the SHA-256 of all, and ends the stream.
pub(crate) async fn send_pieces(
    stream: &mut SendStream,
    from: &mut (impl AsyncRead + Unpin),
    throttle: Option<&Throttle>,
    mut sent: impl FnMut(u64),
) -> Result<(), NotSent> {
    let mut sum = Sha256::new();
    loop {
        let mut piece = BytesMut::with_capacity(4 + CHUNK);
        piece.extend_from_slice(&[0; 4]);
        let count = match (&mut *from).take(CHUNK as u64).read_buf(&mut piece).await {
            Ok(count) => count,
            Err(error) => {
                // The stream must not end as if all were there.
                let _ = stream.reset(BROKEN);
                return Err(NotSent::File(error));
            }
        };
        piece[..4].copy_from_slice(&(count as u32).to_be_bytes());
        sum.update(&piece[4..]);
        let written = stream.write_chunk(piece.freeze()).await;
        written.map_err(NotSent::Stream)?;
        if count == 0 {
            break;
        }
        sent(count as u64);
        if let Some(throttle) = throttle {
            throttle.passed(count).await;
        }
    }
    let digest = sum.finalize();
    stream.write_all(&digest).await.map_err(NotSent::Stream)?;
    // It fails only if it was ended before.
    let _ = stream.finish();
    Ok(())
}

/// Why contents did not arrive.
#[derive(Debug)]
pub(crate) enum NotReceived {
    /// The stream broke: what is there can be taken up again.
    Stream(Error),
    /// The file cannot be written: what is there is in the way.
    File(io::Error),
    /// The other side cannot read its file to its end.
    Cut,
    /// The SHA-256 is another one.
    Damaged,
}

impl From<ReadError> for NotReceived {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(BROKEN) => Self::Cut,
            error => Self::Stream(error.into()),
        }
    }
}

/// The next bytes of contents of which so many are still to come.
pub(crate) async fn chunk(stream: &mut RecvStream, left: u64) -> Result<Bytes, Error> {
    let most = usize::try_from(left).unwrap_or(usize::MAX);
    let chunk = stream.read_chunk(most.min(CHUNK)).await?;
    chunk.ok_or_else(|| Error::Malformed(format!("it ended {left} bytes too soon")))
}

/// Receives what [`send_pieces`] sends.
pub(crate) async fn receive_pieces(
    part: &mut Part,
    stream: &mut RecvStream,
    throttle: Option<&Throttle>,
) -> Result<(), NotReceived> {
    loop {
        let mut len = [0; 4];
        read(stream, &mut len).await?;
        let mut left = u32::from_be_bytes(len) as usize;
        if left == 0 {
            break;
        }
        if left > CHUNK {
            let why = format!("a piece of {left} bytes");
            return Err(NotReceived::Stream(Error::Malformed(why)));
        }
        while left > 0 {
            let Some(chunk) = stream.read_chunk(left).await? else {
                let why = "it ended in the middle of a piece".to_owned();
                return Err(NotReceived::Stream(Error::Malformed(why)));
            };
            left -= chunk.len();
            part.append(&chunk).await.map_err(NotReceived::File)?;
            if let Some(throttle) = throttle {
                throttle.passed(chunk.len()).await;
            }
        }
    }
    check(part, stream).await
}

async fn read(stream: &mut RecvStream, bytes: &mut [u8]) -> Result<(), NotReceived> {
    match stream.read_exact(bytes).await {
        Ok(()) => Ok(()),
        Err(ReadExactError::ReadError(error)) => Err(error.into()),
        Err(error) => Err(NotReceived::Stream(error.into())),
    }
}

/// Whether what is there has the SHA-256 that comes behind it.
async fn check(part: &Part, stream: &mut RecvStream) -> Result<(), NotReceived> {
    let mut digest = [0; 32];
    read(stream, &mut digest).await?;
    if part.digest() == Digest(digest) {
        Ok(())
    } else {
        Err(NotReceived::Damaged)
    }
}

/// Receives what `part` lacks of `size` bytes, and the SHA-256 of the whole.
pub(crate) async fn receive(
    part: &mut Part,
    size: u64,
    stream: &mut RecvStream,
    throttle: Option<&Throttle>,
    received: impl Fn(u64),
) -> Result<(), NotReceived> {
    while part.len() < size {
        let left = usize::try_from(size - part.len()).unwrap_or(usize::MAX);
        let Some(chunk) = stream.read_chunk(left.min(CHUNK)).await? else {
            let why = format!("it ended after {} of {size} bytes", part.len());
            return Err(NotReceived::Stream(Error::Malformed(why)));
        };
        part.append(&chunk).await.map_err(NotReceived::File)?;
        received(chunk.len() as u64);
        if let Some(throttle) = throttle {
            throttle.passed(chunk.len()).await;
        }
    }
    check(part, stream).await
}

/// Receives all of a small file into memory, and its SHA-256.
pub(crate) async fn receive_whole(
    size: u64,
    stream: &mut RecvStream,
    throttle: Option<&Throttle>,
) -> Result<Vec<u8>, NotReceived> {
    let mut contents = vec![0; size as usize + DIGEST];
    read(stream, &mut contents).await?;
    if let Some(throttle) = throttle {
        throttle.passed(size as usize).await;
    }
    let digest = contents.split_off(size as usize);
    if Sha256::digest(&contents)[..] == digest {
        Ok(contents)
    } else {
        Err(NotReceived::Damaged)
    }
}
