//! The viewer's host: takes frames, and says how late they were.

use std::io::Write as _;
use std::time::Duration;

use mpquic::{Connection, Endpoint};
use mpquic_live::{Limits, LiveReceiver, Received};
use tokio::io::AsyncWriteExt as _;

use crate::camera::{STAMP, since_epoch};
use crate::cli::Receive;
use crate::figures::{Came, Figures, delays};
use crate::{ALPN, Error, pin, stop};

pub(crate) async fn run(options: &Receive) -> Result<(), Error> {
    let (config, pin) = pin::server(ALPN)?;
    let endpoint = Endpoint::server(config, &[options.listen])?;
    if let Some(file) = &options.pin_out {
        std::fs::write(file, format!("{pin}\n"))?;
    }
    note!("listening on {}, pin {pin}", endpoint.local_addr()?);
    let mut stopped = std::pin::pin!(stop::requested());
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = &mut stopped => return Ok(()),
        };
        let Some(incoming) = incoming else {
            return Ok(());
        };
        let remote = incoming.remote_address();
        match incoming.await {
            Ok(connection) => {
                note!("{remote}: connected");
                let watched = watch(options, &connection).await;
                report(options, watched.0, &watched.1)?;
            }
            Err(error) => note!("{remote}: {error}"),
        }
        if options.once {
            return Ok(());
        }
    }
}

/// Takes one camera's frames to its end. Returns how many it sent, and those that came.
async fn watch(options: &Receive, connection: &Connection) -> (u64, Vec<Came>) {
    let limits = Limits {
        flows: 1,
        ..Limits::default()
    };
    let mut receiver = LiveReceiver::new(connection, limits);
    let mut came: Vec<Came> = Vec::new();
    let mut output = tokio::io::stdout();
    // Frames with a verdict.
    let mut known = 0;
    let mut total = None;
    let count = async {
        let mut stream = connection.accept_uni().await.ok()?;
        let mut count = [0; 8];
        stream.read_exact(&mut count).await.ok()?;
        Some(u64::from_be_bytes(count))
    };
    let mut count = std::pin::pin!(count);
    let mut asked = false;
    while total.is_none_or(|total| known < total) {
        let received = tokio::select! {
            received = receiver.recv() => received,
            counted = &mut count, if !asked => {
                asked = true;
                total = counted;
                continue;
            }
            // Those that are missing at the end have no verdict.
            () = tokio::time::sleep(Duration::from_secs(2)), if total.is_some() => break,
        };
        match received {
            Ok(Received::Frame {
                id,
                key,
                repaired,
                data,
                ..
            }) if data.len() >= STAMP => {
                known += 1;
                let (stamp, rest) = data.split_at(STAMP);
                let made = stamp.try_into().map_or(0, u64::from_be_bytes);
                came.push(Came {
                    id,
                    made,
                    at: since_epoch(),
                    bytes: data.len(),
                    key,
                    repaired,
                });
                if options.stdout {
                    let length = (rest.len() as u32).to_be_bytes();
                    // Who does not read any more is told by the figures.
                    let _ = output.write_all(&length).await;
                    let _ = output.write_all(rest).await;
                    let _ = output.flush().await;
                }
            }
            Ok(Received::Missing { .. }) => known += 1,
            Ok(Received::Skipped { first, last, .. }) => known += last - first + 1,
            // A frame without a stamp is not of this camera.
            Ok(_) => known += 1,
            Err(_) => break,
        }
    }
    (total.unwrap_or(known), came)
}

fn report(options: &Receive, frames: u64, came: &[Came]) -> Result<(), Error> {
    let figures = Figures::new(frames, came, options.one_clock);
    if options.json {
        say!("{}", serde_json::to_string(&figures)?);
    } else {
        note!("{figures}");
    }
    let Some(file) = &options.csv else {
        return Ok(());
    };
    let mut csv = std::io::BufWriter::new(std::fs::File::create(file)?);
    writeln!(csv, "frame,made_ms,delay_ms,bytes,key,repaired")?;
    let begin = came.iter().map(|frame| frame.made).min().unwrap_or(0);
    let delays = delays(came, options.one_clock);
    let mut rows: Vec<_> = came.iter().zip(delays).collect();
    rows.sort_by_key(|(frame, _)| frame.id);
    let mut rows = rows.into_iter().peekable();
    for id in 0..frames {
        match rows.next_if(|(frame, _)| frame.id == id) {
            Some((frame, delay)) => writeln!(
                csv,
                "{id},{:.3},{delay:.3},{},{},{}",
                (frame.made - begin) as f64 / 1e3,
                frame.bytes,
                u8::from(frame.key),
                u8::from(frame.repaired),
            )?,
            // It did not come.
            None => writeln!(csv, "{id},,,,,")?,
        }
    }
    csv.flush()?;
    Ok(())
}
