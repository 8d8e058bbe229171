//! `connect`: a client with its local port, a screen or lines of JSON.

use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mpquic_bond::{Client, ClientSettings, Error, Trust, client_tls, screen};
use mpquic_peer::service;
use mpquic_peer::{Given, Passwords, Ticket, Way, note, report, say};
use tokio::net::TcpListener;

use crate::program::arguments::{Arguments, Connect};
use crate::program::{NAME, PORT, TICKET, heard};

impl Connect {
    fn passwords(&self) -> Result<Option<Arc<Passwords>>, Error> {
        let passwords = self.proxy_auth_file.as_deref().map(Passwords::from_file);
        Ok(passwords.transpose()?.map(Arc::new))
    }

    fn way(&self) -> Result<Way, Error> {
        let pinned = match (self.pin, &self.ca) {
            (Some(fingerprint), _) => Some(Trust::Fingerprint(fingerprint)),
            (None, Some(ca)) => Some(Trust::Authorities(ca.clone())),
            (None, None) => None,
        };
        let token = self.common.token()?;
        Ok(Way::find(NAME, TICKET, &self.server, PORT, pinned, token)?)
    }
}

/// Says what would be in force.
pub(crate) fn check(given: &Given<Arguments>, connect: &Connect) -> Result<(), Error> {
    let way = connect.way()?;
    client_tls(&way.trust, connect.common.identity()?)?;
    connect.passwords()?;
    connect.common.transport().check()?;
    // A ticket is for nobody who looks over a shoulder.
    let shown = match Ticket::is_meant(&connect.server, TICKET) {
        true => given.shown.replace(&connect.server, "TICKET"),
        false => given.shown.clone(),
    };
    say!("{}", shown.trim_end());
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
    let mut way = arguments.way()?;
    let key_log = common.key_log()?;
    let locals = arguments.locals.clone();
    let settings = ClientSettings {
        server: way.server.clone(),
        token: way.token.clone(),
        locals: locals.iter().map(|local| local.address().ip()).collect(),
        metered: arguments.metered.clone(),
        idle: common.idle(),
        passwords: arguments.passwords()?,
        transport: common.transport(),
    };
    // A port that is taken is told before anything is tried.
    let listener = TcpListener::bind(arguments.proxy).await;
    let listener = listener.map_err(|source| Error::Listen {
        address: arguments.proxy.to_string(),
        source,
    })?;
    let connecting = async {
        loop {
            let mut tls = client_tls(&way.trust, common.identity()?)?;
            tls.config.key_log = key_log.clone().unwrap_or(tls.config.key_log);
            let error = match Client::connect_from(tls, settings.clone(), &locals).await {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            let of_peer = match &error {
                Error::Peer(error) => Some(error),
                _ => None,
            };
            if !way.meet(of_peer, arguments.accept_new).await? {
                return Err(error);
            }
        }
    };
    let mut forwards = Vec::new();
    for forward in &arguments.forward {
        let listener = TcpListener::bind(forward.listen).await;
        let listener = listener.map_err(|source| Error::Listen {
            address: forward.listen.to_string(),
            source,
        })?;
        forwards.push((listener, forward.target.clone()));
    }
    let client = tokio::select! {
        client = connecting => client?,
        stop = stop.as_mut() => return Ok(ExitCode::from(stop.exit_code())),
    };
    say!("proxy on {}", listener.local_addr()?);
    if !listener.local_addr()?.ip().is_loopback() && arguments.proxy_auth_file.is_none() {
        note!(
            "whoever reaches {} can use this proxy: give --proxy-auth-file",
            arguments.proxy
        );
    }
    let mut forwarding = tokio::task::JoinSet::new();
    for (listener, target) in forwards {
        say!("forwarding {} to {target}", listener.local_addr()?);
        let client = Arc::clone(&client);
        forwarding.spawn(async move { client.forward(listener, target).await });
    }
    let status = common.status().await?;
    let showing = async {
        match &status {
            Some(page) => page.run(|| client.status()).await,
            None => std::future::pending().await,
        }
    };
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
            () = showing => {}
            never = service::watchdog() => match never {},
        }
    };
    service::ready();
    client.run(listener, until).await?;
    service::stopping();
    Ok(ExitCode::SUCCESS)
}
