//! The code that is the same for quinn and for this crate.

/// Implements the traits of one end for the types of a crate. The types of the two crates share
/// only their names, so this is a macro.
macro_rules! peer {
    ($library:ident, $connection:ident) => {
        use crate::stacks::{DatagramRefused, End, Peer, RecvHalf, SendHalf, StreamEnd};

        fn end(error: $library::ConnectionError) -> End {
            use $library::ConnectionError as Error;
            match error {
                Error::ApplicationClosed(close) => {
                    End::Application(close.error_code.into_inner(), close.reason.to_vec())
                }
                Error::ConnectionClosed(close) => {
                    let reason = String::from_utf8_lossy(&close.reason).into_owned();
                    End::PeerTransport(close.error_code.into(), reason)
                }
                Error::TransportError(error) => {
                    End::OwnTransport(error.code.into(), error.reason.to_string())
                }
                Error::Reset => End::Reset,
                Error::VersionMismatch => End::Version,
                Error::TimedOut => End::TimedOut,
                Error::LocallyClosed => End::Local,
                #[allow(
                    unreachable_patterns,
                    reason = "only one of the types is non_exhaustive"
                )]
                other => End::Other(other.to_string()),
            }
        }

        impl SendHalf for $library::SendStream {
            async fn write_all(&mut self, data: &[u8]) -> Result<(), StreamEnd> {
                use $library::WriteError as Error;
                match Self::write_all(self, data).await {
                    Ok(()) => Ok(()),
                    Err(Error::Stopped(code)) => Err(StreamEnd::Stopped(code.into_inner())),
                    Err(Error::ConnectionLost(reason)) => Err(StreamEnd::Lost(end(reason))),
                    Err(other) => Err(StreamEnd::Other(other.to_string())),
                }
            }

            fn finish(&mut self) {
                Self::finish(self).unwrap();
            }

            fn reset(&mut self, code: u32) {
                Self::reset(self, code.into()).unwrap();
            }

            async fn stopped(&self) -> Result<Option<u64>, End> {
                use $library::StoppedError as Error;
                match Self::stopped(self).await {
                    Ok(code) => Ok(code.map(|code| code.into_inner())),
                    Err(Error::ConnectionLost(reason)) => Err(end(reason)),
                    #[allow(unreachable_patterns, reason = "only one of the types has more")]
                    Err(other) => Err(End::Other(other.to_string())),
                }
            }
        }

        impl RecvHalf for $library::RecvStream {
            async fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, StreamEnd> {
                use $library::ReadError as Error;
                match Self::read(self, buf).await {
                    Ok(count) => Ok(count),
                    Err(Error::Reset(code)) => Err(StreamEnd::Reset(code.into_inner())),
                    Err(Error::ConnectionLost(reason)) => Err(StreamEnd::Lost(end(reason))),
                    Err(other) => Err(StreamEnd::Other(other.to_string())),
                }
            }

            fn stop(&mut self, code: u32) {
                Self::stop(self, code.into()).unwrap();
            }
        }

        impl Peer for $connection {
            type Send = $library::SendStream;
            type Recv = $library::RecvStream;

            async fn open_bi(&self) -> (Self::Send, Self::Recv) {
                self.0.open_bi().await.unwrap()
            }

            async fn open_uni(&self) -> Self::Send {
                self.0.open_uni().await.unwrap()
            }

            async fn accept_bi(&self) -> Result<(Self::Send, Self::Recv), End> {
                self.0.accept_bi().await.map_err(end)
            }

            async fn accept_uni(&self) -> Result<Self::Recv, End> {
                self.0.accept_uni().await.map_err(end)
            }

            fn send_datagram(&self, data: bytes::Bytes) -> Result<(), DatagramRefused> {
                use $library::SendDatagramError as Error;
                match self.0.send_datagram(data) {
                    Ok(()) => Ok(()),
                    Err(Error::TooLarge) => Err(DatagramRefused::TooLarge),
                    Err(Error::UnsupportedByPeer) => Err(DatagramRefused::UnsupportedByPeer),
                    Err(other) => Err(DatagramRefused::Other(other.to_string())),
                }
            }

            async fn read_datagram(&self) -> Result<bytes::Bytes, End> {
                self.0.read_datagram().await.map_err(end)
            }

            fn max_datagram_size(&self) -> Option<usize> {
                self.0.max_datagram_size()
            }

            fn close(&self, code: u32, reason: &[u8]) {
                self.0.close(code.into(), reason);
            }

            async fn closed(&self) -> End {
                end(self.0.closed().await)
            }

            fn force_key_update(&self) {
                self.0.force_key_update();
            }

            fn key_updates(&self) -> Option<u64> {
                key_updates(&self.0)
            }

            fn alpn(&self) -> Option<Vec<u8>> {
                handshake_data(&self.0).protocol
            }

            fn server_name(&self) -> Option<String> {
                handshake_data(&self.0).server_name
            }

            fn peer_identity(&self) -> Option<Vec<rustls::pki_types::CertificateDer<'static>>> {
                peer_identity(&self.0)
            }

            fn exported_key(&self) -> [u8; 32] {
                let mut key = [0; 32];
                self.0
                    .export_keying_material(&mut key, b"interop", b"context")
                    .unwrap();
                key
            }

            fn remote_address(&self) -> std::net::SocketAddr {
                remote_address(&self.0)
            }
        }
    };
}

pub(super) use peer;
