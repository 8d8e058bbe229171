//! The camera's host: connects over all links, sends frames, says what they cost.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mpquic::sched::Registry;
use mpquic::sched::memory::Store;
use mpquic::{Connection, DatagramOptions, Endpoint, TransportConfig, VarInt};
use mpquic_live::{
    Config, Flow, FrameInfo, LiveConfig, LiveFlow, LiveSender, MAX_PAYLOAD, Repair, Sender,
    SenderStats,
};
use serde_json::json;

use crate::camera::{Frame, Synthetic, piped};
use crate::cli::{Protection, Send};
use crate::{ALPN, Error, pin, stop};

/// What is tried first if the rate follows the paths.
const FIRST: f64 = 0.25;

/// How frames leave.
enum Out {
    Live(LiveSender, LiveFlow),
    /// Cut into packets in the same way, and no more.
    Plain(Box<Sender>, DatagramOptions),
}

impl Out {
    fn new(connection: &Connection, options: &Send, memory: Option<Store>) -> Result<Self, Error> {
        let flow = Flow::new(options.deadline).worth(options.worth);
        let route = match options.protection {
            Protection::Live => {
                let mut config = LiveConfig::default();
                config.memory = memory;
                let live = LiveSender::new(connection, config)?;
                let flow = live.flow(flow);
                return Ok(Self::Live(live, flow));
            }
            Protection::None => DatagramOptions::new(),
            Protection::Twice => DatagramOptions::new().all_paths(),
        };
        let now = std::time::Instant::now();
        let config = Config {
            max_datagram: MAX_PAYLOAD,
            seed: 0,
        };
        let mut sender = Sender::new(config, now);
        sender.flow(now, flow.repair(Repair::Fixed(0.0)));
        Ok(Self::Plain(Box::new(sender), route))
    }

    fn send(&mut self, connection: &Connection, frame: &Frame) -> Result<(), Error> {
        let info = FrameInfo { key: frame.key };
        match self {
            Self::Live(_, flow) => {
                flow.send(&frame.bytes, info)?;
            }
            Self::Plain(sender, route) => {
                let now = std::time::Instant::now();
                sender.send(now, 0, &frame.bytes, info)?;
                let mut datagram = Vec::new();
                while let Some(transmit) = sender.poll_transmit(now, &mut datagram) {
                    let options = route.deadline(transmit.deadline);
                    connection.send_datagram_with(datagram.clone().into(), options)?;
                }
            }
        }
        Ok(())
    }

    fn stats(&self) -> SenderStats {
        match self {
            Self::Live(live, _) => live.stats(),
            Self::Plain(sender, _) => sender.stats(),
        }
    }

    /// What an encoder may make, in bytes per second.
    fn target_rate(&self) -> Option<u64> {
        match self {
            Self::Live(_, flow) => flow.target_rate(),
            Self::Plain(..) => None,
        }
    }
}

pub(crate) async fn run(options: &Send) -> Result<(), Error> {
    let memory = match &options.memory {
        Some(file) => Some(Store::load(file)?),
        None => None,
    };
    let connection = connect(options, memory.clone()).await?;
    let (endpoint, connection) = (connection.0, connection.1);
    let mut out = Out::new(&connection, options, memory.clone())?;
    let result = frames(options, &connection, &mut out).await;
    let stats = out.stats();
    // Frames of which nothing has come have no verdict: how many there were is said on a stream.
    if let Ok(mut stream) = connection.open_uni().await {
        stream.write_all(&stats.frames.to_be_bytes()).await?;
        stream.finish()?;
    }
    tokio::select! {
        // What is on its way may still arrive.
        () = tokio::time::sleep(options.deadline + Duration::from_secs(1)) => {}
        _ = connection.closed() => {}
    }
    report(options, &connection, &out, stats);
    drop(out);
    connection.close(VarInt::from_u32(0), b"done");
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    if let (Some(memory), Some(file)) = (memory, &options.memory) {
        memory.save(file)?;
    }
    result
}

async fn connect(options: &Send, memory: Option<Store>) -> Result<(Endpoint, Connection), Error> {
    let mut registry = Registry::new();
    if let Some(memory) = &memory {
        registry = registry.with_memory(memory.clone());
    }
    let mut transport = TransportConfig::default();
    mpquic_live::tune(&mut transport);
    transport.scheduler(registry.factory(&options.scheduler, &json!({}))?);
    transport.keep_alive_interval(Some(Duration::from_secs(5)));
    if let Some(memory) = memory {
        transport.path_memory(Some(Arc::new(memory)));
    }
    let mut config = pin::client(ALPN, options.pin)?;
    config.transport(Arc::new(transport));
    let any = match options.server.ip() {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let mut locals: Vec<_> = options
        .local
        .iter()
        .map(|ip| SocketAddr::new(*ip, 0))
        .collect();
    if locals.is_empty() {
        locals.push(SocketAddr::new(any, 0));
    }
    let endpoint = Endpoint::client(&locals)?;
    let connection = endpoint
        .connect_with(config, options.server, "localhost")?
        .await?;
    Ok((endpoint, connection))
}

async fn frames(options: &Send, connection: &Connection, out: &mut Out) -> Result<(), Error> {
    let most = options.rate * 1e6 / 8.0;
    let mut camera = Synthetic::new(options.fps, options.frames);
    let mut input = tokio::io::stdin();
    let mut rate = if options.adapt { FIRST * most } else { most };
    let mut stopped = std::pin::pin!(stop::requested());
    loop {
        let next = async {
            match options.stdin {
                true => piped(&mut input).await,
                false => Ok(camera.frame(rate).await),
            }
        };
        let frame = tokio::select! {
            frame = next => frame?,
            _ = &mut stopped => return Ok(()),
            error = connection.closed() => return Err(error.into()),
        };
        let Some(frame) = frame else { return Ok(()) };
        out.send(connection, &frame)?;
        if let Some(target) = out.target_rate().filter(|_| options.adapt) {
            rate = most.min(target as f64);
        }
    }
}

fn report(options: &Send, connection: &Connection, out: &Out, stats: SenderStats) {
    let sent: u64 = connection
        .paths()
        .iter()
        .filter_map(|path| path.stats().ok())
        .map(|stats| stats.sent_bytes)
        .sum();
    let copies = if options.protection == Protection::Twice {
        connection.paths().len().saturating_sub(1) as f64
    } else {
        0.0
    };
    let extra = 100.0 * (stats.overhead() + copies);
    if options.json {
        say!(
            "{}",
            json!({
                "frames": stats.frames,
                "source_bytes": stats.source.bytes,
                "copies_bytes": stats.copies.bytes,
                "hedge_bytes": stats.hedge.bytes,
                "repair_bytes": stats.repair.bytes,
                "probe_bytes": stats.probes.bytes,
                "extra_percent": extra,
                "dropped_packets": stats.dropped,
                "udp_bytes": sent,
                "target_rate": out.target_rate(),
            })
        );
        return;
    }
    let share = |bytes: u64| 100.0 * bytes as f64 / stats.source.bytes.max(1) as f64;
    say!(
        "{} frames, {:.1} MB; beyond them {extra:.1} % of bytes: copies {:.1}, hedge {:.1}, repair {:.1}, probes {:.2}",
        stats.frames,
        stats.source.bytes as f64 / 1e6,
        share(stats.copies.bytes),
        share(stats.hedge.bytes),
        share(stats.repair.bytes),
        share(stats.probes.bytes),
    );
    if stats.dropped > 0 {
        say!("{} packets were too late before they left", stats.dropped);
    }
}
