//! HTTP datagrams (RFC 9297) over the datagrams of the transport (RFC 9221).

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::quic::ConnectionErrorIncoming;
use h3_datagram::datagram::EncodedDatagram;
use h3_datagram::quic_traits::{
    DatagramConnectionExt, RecvDatagram, SendDatagram, SendDatagramErrorIncoming,
};
use mpquic::SendDatagramError;

use crate::connection::Connection;
use crate::error::connection_error;

/// Sends datagrams. If the buffer is full, the oldest unsent ones are dropped.
#[derive(Debug, Clone)]
pub struct SendDatagramHandler(mpquic::Connection);

/// Receives datagrams.
#[derive(Debug, Clone)]
pub struct RecvDatagramHandler(mpquic::Connection);

impl<B: Buf> DatagramConnectionExt<B> for Connection {
    type SendDatagramHandler = SendDatagramHandler;
    type RecvDatagramHandler = RecvDatagramHandler;

    fn send_datagram_handler(&self) -> Self::SendDatagramHandler {
        SendDatagramHandler(self.transport.clone())
    }

    fn recv_datagram_handler(&self) -> Self::RecvDatagramHandler {
        RecvDatagramHandler(self.transport.clone())
    }
}

impl<B: Buf> SendDatagram<B> for SendDatagramHandler {
    fn send_datagram<T: Into<EncodedDatagram<B>>>(
        &mut self,
        data: T,
    ) -> Result<(), SendDatagramErrorIncoming> {
        let mut encoded = data.into();
        let bytes = encoded.copy_to_bytes(encoded.remaining());
        self.0.send_datagram(bytes).map_err(|error| match error {
            SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled => {
                SendDatagramErrorIncoming::NotAvailable
            }
            SendDatagramError::ConnectionLost(reason) => {
                SendDatagramErrorIncoming::ConnectionError(connection_error(reason))
            }
            // `TooLarge` is the only other one: no path is named here.
            _ => SendDatagramErrorIncoming::TooLarge,
        })
    }
}

impl RecvDatagram for RecvDatagramHandler {
    type Buffer = Bytes;

    fn poll_incoming_datagram(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Buffer, ConnectionErrorIncoming>> {
        self.0.poll_read_datagram(cx).map_err(connection_error)
    }
}
