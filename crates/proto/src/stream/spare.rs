//! Halves of streams that are over, one of each direction, whose memory serves the next stream: requests one after another
//! allocate none.

use mpquic_sched_core::StreamId;

use super::flow::RecvWindow;
use super::recv::RecvStream;
use super::send::SendStream;

#[derive(Debug, Default)]
pub(super) struct Spare {
    send: Option<Box<SendStream>>,
    recv: Option<Box<RecvStream>>,
}

impl Spare {
    /// The sending half of a new stream.
    pub(super) fn send(&mut self, id: StreamId, credit: u64) -> Box<SendStream> {
        match self.send.take() {
            Some(mut spare) => {
                spare.renew(id, credit);
                spare
            }
            None => Box::new(SendStream::new(id, credit)),
        }
    }

    /// The receiving half of a new stream.
    pub(super) fn recv(&mut self, window: RecvWindow) -> Box<RecvStream> {
        match self.recv.take() {
            Some(mut spare) => {
                spare.renew(window);
                spare
            }
            None => Box::new(RecvStream::new(window)),
        }
    }

    /// All of it was acknowledged.
    pub(super) fn keep_send(&mut self, half: Box<SendStream>) {
        if half.is_lean() {
            self.send = Some(half);
        }
    }

    /// It was read, or stopped, and cleared.
    pub(super) fn keep_recv(&mut self, half: Box<RecvStream>) {
        if half.assembler.is_lean() {
            self.recv = Some(half);
        }
    }

    /// Bytes of both.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let recv = self.recv.as_ref();
        let recv = recv.map_or(0, |half| size_of_val(&**half) + half.assembler.memory());
        recv + self.send.as_ref().map_or(0, |half| size_of_val(&**half))
    }
}
