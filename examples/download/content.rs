//! Generated content of any length. The same seed gives the same content, and none of it is stored.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::schedulers::Choice;
use crate::serve::{Answer, Service};

/// The name of the content.
pub(crate) const NAME: &str = "generated";

/// A service with only the generated content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Generator {
    pub(crate) seed: u64,
    pub(crate) size: u64,
}

impl Service for Generator {
    type Body = Body;

    async fn open(&self, name: &str) -> Result<(Body, u64), String> {
        if name != NAME {
            return Err(format!("there is only {NAME:?}, not {name:?}"));
        }
        let body = Body {
            seed: self.seed,
            offset: 0,
        };
        Ok((body, self.size))
    }

    fn choose(&self, _: &Choice) -> Result<(), String> {
        Err("the scheduler of this server is fixed".to_owned())
    }

    /// The client in the same process reports the result.
    fn answered(&self, _: &Answer) {}
}

/// The content as a reader; it is endless.
#[derive(Debug)]
pub(crate) struct Body {
    seed: u64,
    offset: u64,
}

impl AsyncRead for Body {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = buf.remaining();
        mpquic_sim::content::fill(self.seed, self.offset, buf.initialize_unfilled());
        buf.advance(count);
        self.offset += count as u64;
        Poll::Ready(Ok(()))
    }
}
