//! A client's connection to its server, and another one if it is lost.

use std::pin::Pin;
use std::time::{Duration, Instant};

use mpquic_cp::{Client, ClientSettings, Error, Exit, Locals, client_tls};
use mpquic_peer::{Given, Stop, Trust, Way, say};

use crate::program::arguments::{Arguments, Connect};
use crate::program::screen::Screen;

/// What this program's identity is kept under, and its keys are derived for.
pub(crate) const PROGRAM: &str = "mpquic-cp";
/// With what its tickets begin.
pub(crate) const TICKET: &str = "mpcp";
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
    mut way: Way,
    screen: &Screen,
    mut stop: Stopping<'_>,
    mut work: impl AsyncFnMut(&Client) -> Result<(), Error>,
) -> Result<Ended, Error> {
    let mut lost: Option<(Instant, Duration)> = None;
    loop {
        let connected = tokio::select! {
            connected = client(connect, &mut way, screen) => connected,
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
    /// Which server, and how the two know each other.
    pub(crate) fn way(&self) -> Result<Way, Error> {
        let pinned = match (self.pin, &self.ca) {
            (Some(fingerprint), _) => Some(Trust::Fingerprint(fingerprint)),
            (None, Some(ca)) => Some(Trust::Authorities(ca.clone())),
            (None, None) => None,
        };
        let token = self.common.token()?;
        Ok(Way::find(
            PROGRAM,
            TICKET,
            &self.server,
            PORT,
            pinned,
            token,
        )?)
    }
}

/// Says what would be in force for a client.
pub(crate) fn check(given: &Given<Arguments>, connect: &Connect) -> Result<(), Error> {
    let way = connect.way()?;
    client_tls(&way.trust, connect.common.identity()?, None)?;
    connect.common.transport().check()?;
    say!("{}", given.shown.trim_end());
    Ok(())
}

/// One attempt; another one, if the user then trusts a server that was met for the first time.
async fn client(connect: &Connect, way: &mut Way, screen: &Screen) -> Result<Client, Error> {
    loop {
        let error = match attempt(connect, way, screen).await {
            Err(Error::Peer(error)) => error,
            attempt => return attempt,
        };
        if !way.meet(Some(&error), connect.accept_new).await? {
            return Err(error.into());
        }
    }
}

async fn attempt(connect: &Connect, way: &Way, screen: &Screen) -> Result<Client, Error> {
    let common = &connect.common;
    let tls = client_tls(&way.trust, common.identity()?, common.keylog.as_deref())?;
    let locals = match connect.locals.as_slice() {
        [] => Locals::All {
            metered: connect.metered.clone(),
        },
        given => Locals::These(given.to_vec()),
    };
    let settings = ClientSettings {
        server: way.server.clone(),
        token: way.token.clone(),
        locals,
        transport: common.transport(),
        rate: connect.bwlimit,
    };
    let told = {
        let screen = screen.clone();
        move |event: mpquic::LinkEvent| screen.tell(&event.to_string())
    };
    Client::connect(tls, settings, told).await
}
