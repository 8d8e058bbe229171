//! How a client says who it is, at the begin of its first stream, and how a server judges it.
//!
//! ```text
//! a shared token, or none:  version (1)         proof (32)
//! a named user:             version + 128 (1)   user's key (32)  device's key (32)  signature of each (64 + 64)
//! ```
//!
//! Proofs and signatures are over keying material of the connection (RFC 8446 section 7.5): they are worth nothing on another one.

use std::sync::Arc;

use mpquic::{Connection, ReadExactError, RecvStream};

use crate::token::{PROOF, Token, exported};
use crate::user_key::UserKey;
use crate::users::{Admitted, Users};

/// In the version of a greeting: it is a user's.
pub(crate) const NAMED: u8 = 0x80;
const SIGNATURE: usize = 64;

/// What came from a client.
#[derive(Debug)]
pub enum Greeting {
    /// The proof of a shared token, or zeros.
    Shared([u8; PROOF]),
    /// A user's.
    Named {
        /// The user.
        key: UserKey,
        /// The user's device.
        device: UserKey,
        /// Of each of them.
        signatures: [[u8; SIGNATURE]; 2],
    },
    /// One of another version of the protocol.
    Other(u8),
}

impl Greeting {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// If the stream ends before.
    pub async fn read(recv: &mut RecvStream, version: u8) -> Result<Self, ReadExactError> {
        let mut first = [0];
        recv.read_exact(&mut first).await?;
        if first[0] == version {
            let mut proof = [0; PROOF];
            recv.read_exact(&mut proof).await?;
            return Ok(Self::Shared(proof));
        }
        if first[0] != version | NAMED {
            return Ok(Self::Other(first[0]));
        }
        let (mut keys, mut signatures) = ([[0; 32]; 2], [[0; SIGNATURE]; 2]);
        for key in &mut keys {
            recv.read_exact(key).await?;
        }
        for signature in &mut signatures {
            recv.read_exact(signature).await?;
        }
        let [key, device] = keys.map(UserKey);
        Ok(Self::Named {
            key,
            device,
            signatures,
        })
    }
}

/// What is signed: the connection, and both keys.
pub(crate) fn signed(exported: [u8; 32], key: UserKey, device: UserKey) -> Vec<u8> {
    [exported, key.0, device.0].concat()
}

/// Whom a server takes.
#[derive(Debug, Clone, Default)]
pub struct Door {
    /// Those that have this token.
    pub token: Option<Token>,
    /// These users.
    pub users: Option<Arc<Users>>,
}

impl Door {
    /// Judges a greeting: the user, if it was one by name. Without token and users, everybody is taken.
    ///
    /// # Errors
    ///
    /// Why not, for the client.
    pub async fn judge(
        &self,
        greeting: Greeting,
        connection: &Connection,
        version: u8,
        label: &str,
    ) -> Result<Option<Admitted>, String> {
        match greeting {
            Greeting::Other(other) => Err(format!(
                "this server speaks version {version} of the protocol, not {other}"
            )),
            Greeting::Shared(proof) => {
                let is_empty = proof == [0; PROOF];
                match &self.token {
                    Some(token) if token.proves(connection, label, &proof) => Ok(None),
                    None if self.users.is_none() => Ok(None),
                    Some(_) if is_empty => {
                        Err("this server needs a token: give --token-file".to_owned())
                    }
                    None if is_empty => Err("this server needs a ticket".to_owned()),
                    _ => Err("wrong token".to_owned()),
                }
            }
            Greeting::Named {
                key,
                device,
                signatures: [by_user, by_device],
            } => {
                let Some(users) = self.users.clone() else {
                    return Err("this server has no users: its tickets are no more".to_owned());
                };
                let exported = exported(connection, label).map_err(|error| error.to_string())?;
                // It may wait for the disk.
                let judged = tokio::task::spawn_blocking(move || {
                    let message = signed(exported, key, device);
                    users.admit(key, device, || {
                        key.verifies(&message, &by_user) && device.verifies(&message, &by_device)
                    })
                });
                let judged = judged.await.map_err(|error| error.to_string())?;
                judged.map(Some)
            }
        }
    }
}
