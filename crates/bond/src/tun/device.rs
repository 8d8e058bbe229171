//! The device through which the system hands its packets over, and takes those that come; its addresses are set by `ip`.

use std::io;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use bytes::{Bytes, BytesMut};
use ipnet::IpNet;
use tun_rs::{AsyncDevice, DeviceBuilder};

use crate::error::Error;

/// Bytes for packets that are read, before a new buffer is begun.
const BUFFER: usize = 256 * 1024;
/// The largest packet, bytes.
const LARGEST: usize = 65_535;

/// Packets that the system keeps until they are read. By itself it keeps 500, which what a TCP sender has in flight over two links goes beyond: acknowledgements
/// that waited for each other let it send hundreds of packets at once, of which many were lost here.
const QUEUE: usize = 4096;

/// A device that is up.
pub(crate) struct Device {
    inner: AsyncDevice,
    name: String,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Device").field(&self.name).finish()
    }
}

impl Device {
    /// Makes it, with addresses. It goes with this value, or with the process.
    ///
    /// # Errors
    ///
    /// If the system does not let it (CAP_NET_ADMIN is needed), or there is no program `ip`.
    pub(crate) fn new(name: &str, mtu: u16, addresses: &[IpNet]) -> Result<Self, Error> {
        let made = DeviceBuilder::new().name(name).mtu(mtu);
        let inner = made.build_async().map_err(|error| wrong(name, &error))?;
        let device = Self {
            inner,
            name: name.to_owned(),
        };
        device.set_addresses(addresses)?;
        Ok(device)
    }

    /// Has these addresses, and no others.
    pub(crate) fn set_addresses(&self, addresses: &[IpNet]) -> Result<(), Error> {
        let name = &self.name;
        ip(&format!("address flush dev {name} scope global"))?;
        for address in addresses {
            let nodad = if address.addr().is_ipv6() {
                " nodad"
            } else {
                ""
            };
            ip(&format!("address add {address} dev {name}{nodad}"))?;
        }
        ip(&format!("link set {name} txqueuelen {QUEUE} up"))
    }

    /// Reads packets, and hands each to `with`, until the device fails.
    pub(crate) async fn read(&self, mut with: impl FnMut(Bytes)) -> io::Error {
        let mut buffer = BytesMut::new();
        loop {
            if buffer.len() < LARGEST {
                buffer = BytesMut::zeroed(BUFFER);
            }
            match self.inner.recv(&mut buffer).await {
                Ok(len) => with(buffer.split_to(len).freeze()),
                Err(error) => return error,
            }
        }
    }

    /// Hands a packet to the system; one that it does not take is lost.
    pub(crate) fn write(&self, packet: &[u8]) {
        let _ = self.inner.try_send(packet);
    }
}

fn wrong(name: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Argument(format!("the device {name}: {error}"))
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) -> Result<(), Error> {
    let mut command = Command::new("ip");
    let run = command.args(words.split(' ')).stdin(Stdio::null()).output();
    let run = run.map_err(|error| Error::Argument(format!("ip {words}: {error}")))?;
    if run.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&run.stderr);
    Err(Error::Argument(format!("ip {words}: {}", said.trim())))
}

/// The addresses without their networks.
pub(crate) fn ips(addresses: &[IpNet]) -> Vec<IpAddr> {
    addresses.iter().map(IpNet::addr).collect()
}
