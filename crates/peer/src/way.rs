//! How a client comes to its server: a ticket, or a name and how it is recognised.

use std::io::BufRead as _;

use crate::error::Error;
use crate::identity::identity_folder;
use crate::known_servers::KnownServers;
use crate::name::with_port;
use crate::ticket::Ticket;
use crate::token::Token;
use crate::trust::Trust;
use crate::user_key::UserSecret;

/// Which server, and how the two know each other.
#[derive(Debug, Clone)]
pub struct Way {
    /// The server, `HOST:PORT`; several with commas.
    pub server: String,
    /// What the client shows.
    pub token: Option<Token>,
    /// How it recognises the server.
    pub trust: Trust,
    /// What a ticket is for; `None` without a ticket.
    pub what: Option<String>,
    /// Where a server is noted that is met for the first time.
    known: Option<KnownServers>,
}

impl Way {
    /// From what a user of this program gave: a ticket, of which the texts begin with `tickets`; `-` for one that comes by standard input; or a
    /// server, with or without a port. Without `pinned`, a server that the user has met is recognised, else those that the system
    /// trusts.
    ///
    /// # Errors
    ///
    /// If it is a ticket that was not copied as it is, or what the program keeps of its user cannot be read.
    pub fn find(
        program: &str,
        tickets: &str,
        given: &str,
        port: u16,
        pinned: Option<Trust>,
        token: Option<Token>,
    ) -> Result<Self, Error> {
        let mut given = given.to_owned();
        if given == "-" {
            given.clear();
            let read = std::io::stdin().lock().read_line(&mut given);
            read.map_err(|error| Error::Setting(format!("standard input: {error}")))?;
            given = given.trim().to_owned();
        }
        if Ticket::is_meant(&given, tickets) {
            let ticket = Ticket::decode(&given, tickets)?;
            let device = UserSecret::of_device(&identity_folder(program)?)?;
            return Ok(Self {
                server: ticket.servers.join(","),
                token: Some(Token::of_user(ticket.secret, device)),
                trust: pinned.unwrap_or(Trust::Fingerprint(ticket.fingerprint)),
                what: Some(ticket.what),
                known: None,
            });
        }
        let server = with_port(&given, port);
        let (trust, known) = match pinned {
            Some(trust) => (trust, None),
            None => {
                let known = KnownServers::of(program)?;
                (known.trust(&server)?, Some(known))
            }
        };
        Ok(Self {
            server,
            token,
            trust,
            what: None,
            known,
        })
    }

    /// After an attempt that failed: whether another one is to be made, since the user trusts the server that was met. Asks on the terminal, or
    /// takes it unasked with `accept_new`.
    ///
    /// # Errors
    ///
    /// If the server cannot be noted.
    pub async fn meet(&mut self, failed: Option<&Error>, accept_new: bool) -> Result<bool, Error> {
        let seen = failed.and_then(Error::unknown_server);
        let (Some(seen), Some(known), Trust::System) = (seen, self.known.clone(), &self.trust)
        else {
            return Ok(false);
        };
        let server = self.server.clone();
        let met = tokio::task::spawn_blocking(move || known.meet(&server, seen, accept_new));
        // It is over if the runtime is.
        let is_met = met.await.unwrap_or(Ok(false))?;
        if is_met {
            self.trust = Trust::Fingerprint(seen);
        }
        Ok(is_met)
    }
}
