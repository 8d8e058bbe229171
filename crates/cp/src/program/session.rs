//! A client's connection to its server, and another one if it is lost.

use std::pin::Pin;
use std::time::{Duration, Instant};

use mpquic_cp::{Client, ClientSettings, Error, Exit, Locals, client_tls};
use mpquic_peer::{Given, Stop, Trust, say, with_port};

use crate::program::arguments::{Arguments, Connect};
use crate::program::screen::Screen;

/// The port without one.
pub(crate) const PORT: u16 = 4433;
/// How long to wait before the first other try, and at most before later ones.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Asks the program to stop.
pub(crate) type Stopping<'a> = Pin<&'a mut dyn Future<Output = Stop>>;

/// What came of it.
pub(crate) enum Ended {
    Done,
    Stopped(Stop),
}

/// Connects, and does `work`. With `--retry`, what was lost is begun again on another connection, for as long as that says.
pub(crate) async fn run(
    connect: &Connect,
    screen: &Screen,
    mut stop: Stopping<'_>,
    mut work: impl AsyncFnMut(&Client) -> Result<(), Error>,
) -> Result<Ended, Error> {
    let mut lost: Option<(Instant, Duration)> = None;
    loop {
        let connected = tokio::select! {
            connected = client(connect, screen) => connected,
            stop = &mut stop => return Ok(Ended::Stopped(stop)),
        };
        let done = match connected {
            Err(error) => Err(error),
            Ok(client) => {
                if lost.take().is_some() {
                    screen.tell("connected again");
                }
                let done = tokio::select! {
                    done = work(&client) => done,
                    never = client.watch(|line| screen.tell(line)) => match never {},
                    stop = &mut stop => {
                        screen.clear();
                        client.close().await;
                        return Ok(Ended::Stopped(stop));
                    }
                };
                client.close().await;
                done
            }
        };
        let error = match done {
            Ok(()) => return Ok(Ended::Done),
            Err(error) => error,
        };
        // Names cannot be resolved either while no link is up.
        let passing = error.is_passing() || error.exit() == Exit::UnknownHost;
        let Some(retry) = connect.retry.filter(|_| passing) else {
            return Err(error);
        };
        let (since, pause) = lost.unwrap_or_else(|| {
            screen.tell(&format!(
                "{error}; trying again for {}",
                humantime::format_duration(retry)
            ));
            (Instant::now(), PAUSES.0)
        });
        let left = retry.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(error);
        }
        tokio::select! {
            () = tokio::time::sleep(pause.min(left)) => {}
            stop = &mut stop => return Ok(Ended::Stopped(stop)),
        }
        lost = Some((since, (2 * pause).min(PAUSES.1)));
    }
}

impl Connect {
    fn trust(&self) -> Trust {
        match (self.pin, &self.ca) {
            (Some(fingerprint), _) => Trust::Fingerprint(fingerprint),
            (None, Some(ca)) => Trust::Authorities(ca.clone()),
            (None, None) => Trust::System,
        }
    }
}

/// Says what would be in force for a client.
pub(crate) fn check(given: &Given<Arguments>, connect: &Connect) -> Result<(), Error> {
    connect.common.token()?;
    client_tls(&connect.trust(), connect.common.identity()?, None)?;
    connect.common.transport().check()?;
    say!("{}", given.shown.trim_end());
    Ok(())
}

async fn client(connect: &Connect, screen: &Screen) -> Result<Client, Error> {
    let common = &connect.common;
    let tls = client_tls(
        &connect.trust(),
        common.identity()?,
        common.keylog.as_deref(),
    )?;
    let locals = match connect.locals.as_slice() {
        [] => Locals::All {
            metered: connect.metered.clone(),
        },
        given => Locals::These(given.to_vec()),
    };
    let settings = ClientSettings {
        server: with_port(&connect.server, PORT),
        token: common.token()?,
        locals,
        transport: common.transport(),
    };
    let told = {
        let screen = screen.clone();
        move |event: mpquic::LinkEvent| screen.tell(&event.to_string())
    };
    Client::connect(tls, settings, told).await
}
