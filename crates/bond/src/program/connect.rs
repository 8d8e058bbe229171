//! `connect`: a client with its local port, a screen or lines of JSON.

use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mpquic_bond::{Client, ClientSettings, Error, Trust, client_tls, screen};
use mpquic_peer::{Given, note, report, say};
use tokio::net::TcpListener;

use crate::program::arguments::{Arguments, Connect};
use crate::program::heard;

/// The server's port without one.
const PORT: u16 = 4433;

impl Connect {
    fn trust(&self) -> Trust {
        match (self.pin, &self.ca) {
            (Some(fingerprint), _) => Trust::Fingerprint(fingerprint),
            (None, Some(ca)) => Trust::Authorities(ca.clone()),
            (None, None) => Trust::System,
        }
    }
}

/// Says what would be in force.
pub(crate) fn check(given: &Given<Arguments>, connect: &Connect) -> Result<(), Error> {
    connect.common.token()?;
    client_tls(&connect.trust(), connect.common.identity()?)?;
    connect.common.transport().check()?;
    say!("{}", given.shown.trim_end());
    Ok(())
}

pub(crate) async fn connect(arguments: Connect) -> Result<ExitCode, Error> {
    let mut stop = pin!(mpquic_peer::stopped());
    if let Some(stop) = heard(stop.as_mut()).await {
        return Ok(ExitCode::from(stop.exit_code()));
    }
    // Each program that uses the proxy takes a socket.
    mpquic_peer::raise_open_files();
    let common = &arguments.common;
    let mut tls = client_tls(&arguments.trust(), common.identity()?)?;
    if let Some(log) = common.key_log()? {
        tls.config.key_log = log;
    }
    let locals = arguments.locals;
    let settings = ClientSettings {
        server: mpquic_peer::with_port(&arguments.server, PORT),
        token: common.token()?,
        locals: locals.iter().map(|local| local.address().ip()).collect(),
        metered: arguments.metered,
        idle: common.idle(),
        transport: common.transport(),
    };
    // A port that is taken is told before anything is tried.
    let listener = TcpListener::bind(arguments.proxy).await;
    let listener = listener.map_err(|source| Error::Listen {
        address: arguments.proxy.to_string(),
        source,
    })?;
    let client = tokio::select! {
        client = Client::connect_from(tls, settings, &locals) => client?,
        stop = stop.as_mut() => return Ok(ExitCode::from(stop.exit_code())),
    };
    say!("proxy on {}", listener.local_addr()?);
    let quit = async {
        if !arguments.screen {
            return std::future::pending().await;
        }
        let watched = Arc::clone(&client);
        let shown = tokio::task::spawn_blocking(move || screen::show(&watched)).await;
        if let Ok(Err(error)) = shown {
            note!("no screen: {error}; the proxy goes on without");
            std::future::pending::<()>().await;
        }
    };
    let reporting = async {
        if !arguments.json {
            return std::future::pending().await;
        }
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            report!("{}", client.report().to_json());
        }
    };
    let until = async {
        tokio::select! {
            _ = stop => {}
            () = quit => {}
            () = reporting => {}
        }
    };
    client.run(listener, until).await?;
    Ok(ExitCode::SUCCESS)
}
