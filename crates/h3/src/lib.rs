//! HTTP/3 (RFC 9114) over multipath QUIC: the traits of [`h3::quic`] for the connections of [`mpquic`].
//!
//! [`h3`] speaks HTTP/3 over whatever implements its traits. [`Connection`] does, around an [`mpquic::Connection`]; it stands
//! where `h3_quinn::Connection` stands with quinn. Requests and answers then use all paths of the connection. Both sides
//! must agree on the application protocol `h3`: set `alpn_protocols` of the TLS configurations.
//!
//! The traits of [`h3_datagram`] are implemented, too (HTTP datagrams, RFC 9297), and send streams take unframed data, so that
//! WebTransport can be built on both.
//!
//! # A client
//!
//! ```no_run
//! # // no_run: needs an HTTP/3 server
//! use bytes::Buf;
//!
//! # async fn run(connection: mpquic::Connection) -> Result<(), Box<dyn std::error::Error>> {
//! // The connection keeps its handle: its paths and their figures can be asked for.
//! let (mut driver, mut send_request) = h3::client::new(mpquic_h3::Connection::new(connection.clone())).await?;
//! let request = http::Request::get("https://example.com/").body(())?;
//! let mut stream = send_request.send_request(request).await?;
//! stream.finish().await?;
//! let response = stream.recv_response().await?;
//! println!("{}", response.status());
//! while let Some(mut data) = stream.recv_data().await? {
//!     println!("{} bytes over {} paths", data.remaining(), connection.paths().len());
//!     data.advance(data.remaining());
//! }
//! drop(send_request); // no more requests: the connection may end
//! std::future::poll_fn(|cx| driver.poll_close(cx)).await;
//! # Ok(()) }
//! ```
//!
//! # A server
//!
//! ```no_run
//! # // no_run: waits for an HTTP/3 client
//! use bytes::Bytes;
//!
//! # async fn run(connection: mpquic::Connection) -> Result<(), Box<dyn std::error::Error>> {
//! let connection = mpquic_h3::Connection::new(connection);
//! let mut connection = h3::server::Connection::<_, Bytes>::new(connection).await?;
//! while let Some(resolver) = connection.accept().await? {
//!     let (request, mut stream) = resolver.resolve_request().await?;
//!     println!("{}", request.uri());
//!     stream.send_response(http::Response::new(())).await?;
//!     stream.send_data(Bytes::from_static(b"hello")).await?;
//!     stream.finish().await?;
//! }
//! # Ok(()) }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod connection;
mod datagram;
mod error;
mod fields;
mod frames;
mod stream;

pub use connection::{Connection, OpenStreams};
pub use datagram::{RecvDatagramHandler, SendDatagramHandler};
pub use frames::FrameTooLarge;
pub use stream::{BidiStream, RecvStream, SendStream};

pub use h3;
pub use h3_datagram;
pub use mpquic;
