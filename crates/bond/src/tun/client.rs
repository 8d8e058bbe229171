//! The client's end: its device, and who uses it, over all connections that are made one after another.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::device::{Device, ips};
use super::packet::Head;
use super::routes::{Plan, restore};
use super::server::Cookie;
use super::tunnel::{LANES, Sink, Tunnel};
use super::wire::Lease;
use crate::client::{Client, NotOpened, Uplink};
use crate::error::Error;
use crate::wire::Request;

/// Datagrams that wait to be read.
const WAITING: usize = 1024;

/// How a machine's packets go through a client.
#[derive(Debug, Clone)]
pub struct TunSettings {
    /// The device's name.
    pub device: String,
    /// Whether nothing may leave past it, even after the end of the process that is no orderly one.
    pub kill_switch: bool,
    /// Whether the server says where names are asked for.
    pub dns: bool,
    /// Whether routes are left alone: who uses the device is then up to the administrator.
    pub no_routes: bool,
    /// The addresses of all servers.
    pub servers: Vec<SocketAddr>,
    /// Where it is kept what is to be put back.
    pub folder: PathBuf,
}

/// A machine's tunnel. What it changed of the system is put back when it is dropped.
#[derive(Debug)]
pub struct Near {
    settings: TunSettings,
    plan: Plan,
    cookie: Cookie,
    current: Arc<Mutex<Option<Arc<Tunnel>>>>,
}

impl Drop for Near {
    fn drop(&mut self) {
        if !self.settings.no_routes
            && let Err(error) = restore(&self.settings.folder)
        {
            mpquic_peer::note!("{error}");
        }
    }
}

impl Near {
    /// Before there is a connection. With the kill switch, nothing gets out from here on.
    ///
    /// # Errors
    ///
    /// If the system does not let it, or what a run before left cannot be put back.
    pub fn begin(settings: TunSettings) -> Result<Self, Error> {
        let plan = Plan {
            device: settings.device.clone(),
            servers: settings.servers.clone(),
            kill_switch: settings.kill_switch,
            folder: settings.folder.clone(),
        };
        let cookie = mpquic_peer::random()?;
        if !settings.no_routes {
            plan.begin()?;
        }
        Ok(Self {
            settings,
            plan,
            cookie,
            current: Arc::default(),
        })
    }

    fn set(&self, tunnel: Option<Arc<Tunnel>>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = tunnel;
    }

    /// Carries packets until the device fails, or the server gives no tunnel.
    pub(crate) async fn run(&self, client: &Client) -> Result<(), Error> {
        let mut uplink = self.uplink(client).await;
        let (lease, _control) = self.ask(&uplink).await?;
        let name = &self.settings.device;
        let device = Arc::new(Device::new(name, lease.mtu, &lease.addresses)?);
        let own = Arc::new(Mutex::new(ips(&lease.addresses)));
        if !self.settings.no_routes {
            self.plan.lead()?;
            if self.settings.dns {
                self.plan.ask(&lease.dns)?;
            }
        }
        let told: Vec<String> = lease.addresses.iter().map(IpNet::to_string).collect();
        mpquic_peer::say!("tunnel {name} with {}", told.join(", "));
        let reading = device.read(|packet| self.outward(packet, &own));
        let carrying = async {
            let mut control = Some(_control);
            loop {
                self.carry(&uplink, &device, &own).await;
                self.set(None);
                drop(control.take());
                uplink = self.uplink(client).await;
                match self.ask(&uplink).await {
                    Ok((lease, new)) => {
                        control = Some(new);
                        let addresses = ips(&lease.addresses);
                        let is_other = {
                            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
                            std::mem::replace(&mut *own, addresses.clone()) != addresses
                        };
                        if is_other {
                            device.set_addresses(&lease.addresses)?;
                            if !self.settings.no_routes {
                                self.plan.lead()?;
                            }
                        }
                    }
                    Err(error) => client.journal.line(format_args!("{error}")),
                }
            }
        };
        tokio::select! {
            error = reading => Err(error.into()),
            ended = carrying => ended,
        }
    }

    /// The next connection, however long it takes.
    async fn uplink(&self, client: &Client) -> Uplink {
        loop {
            if let Ok(uplink) = client.uplink().await {
                return uplink;
            }
        }
    }

    async fn ask(&self, uplink: &Uplink) -> Result<(Lease, impl Sized + use<>), Error> {
        let opened = uplink.open(&Request::Tun(self.cookie)).await;
        let refused = |why: &dyn std::fmt::Display| Error::Argument(format!("no tunnel: {why}"));
        let (send, mut recv) = opened.map_err(|error| match error {
            NotOpened::Refused(why) => {
                refused(&format!("the server refuses it ({why}): it needs --tun"))
            }
            away @ NotOpened::Away => refused(&away),
        })?;
        let lease = Lease::read(&mut recv).await;
        let lease = lease.map_err(|error| refused(&error))?;
        Ok((lease, (send, recv)))
    }

    /// Until the connection ends.
    async fn carry(&self, uplink: &Uplink, device: &Arc<Device>, own: &Arc<Mutex<Vec<IpAddr>>>) {
        let (device, own) = (Arc::clone(device), Arc::clone(own));
        let sink: Sink = Arc::new(move |packet| {
            let own = own.lock().unwrap_or_else(PoisonError::into_inner);
            // Nothing but what is for this machine, and from another one.
            if Head::of(packet)
                .is_some_and(|head| own.contains(&head.to) && !own.contains(&head.from))
            {
                device.write(packet);
            }
        });
        let lane = Arc::clone(&uplink.lane);
        let tunnel = Tunnel::new(uplink.connection().clone(), lane, sink);
        let mut lanes = JoinSet::new();
        for number in 0..LANES {
            let (uplink, tunnel) = (uplink.clone(), Arc::clone(&tunnel));
            lanes.spawn(async move {
                if let Ok((send, recv)) = uplink.open(&Request::Lane(number as u8)).await {
                    tunnel.serve_lane(number, send, recv).await;
                }
            });
        }
        let (datagrams, mut arriving) = mpsc::channel(WAITING);
        uplink.flows.set_tunnel(datagrams);
        self.set(Some(Arc::clone(&tunnel)));
        let arriving = async {
            while let Some(datagram) = arriving.recv().await {
                tunnel.arrived(datagram);
            }
        };
        tokio::select! {
            _ = uplink.connection().closed() => {}
            () = arriving => {}
        }
    }

    /// A packet of this machine: into the tunnel, if it is from its address, and none of the tunnel itself.
    fn outward(&self, packet: Bytes, own: &Mutex<Vec<IpAddr>>) {
        let Some(head) = Head::of(&packet) else {
            return;
        };
        let is_own = own
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&head.from);
        let to = SocketAddr::new(head.to, head.port());
        let is_loop = head.is_udp && self.settings.servers.contains(&to);
        if !is_own || is_loop {
            return;
        }
        let current = self
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(tunnel) = current {
            tunnel.send(&packet, &head);
        }
    }
}
