//! The schedulers that a lab knows: the built-in ones, its own, and those of the program around it.

use std::fmt;
use std::sync::Arc;

use mpquic_sched::{Registry, RegistryError};

use crate::plan::build;
use crate::{own, replica};

type Register = dyn Fn(&mut Registry) -> Result<(), RegistryError> + Send + Sync;

/// The schedulers that experiments can name. The default has the built-in ones.
///
/// ```
/// use mpquic_sched::{MinRtt, MinRttConfig};
/// use mpquic_lab::{Experiment, Schedulers};
///
/// let schedulers = Schedulers::with("mine 0.1", |registry| {
///     registry.register("mine", |config: &MinRttConfig| MinRtt::new(config))?;
///     Ok(())
/// })?;
/// let text = "title = \"Mine\"\nworkloads = [\"file:1MB\"]\nschedulers = [\"mine\", \"minrtt\"]\n\
///             [[network]]\nname = \"one\"\npaths = \"50Mbit 20ms | 2Mbit 100ms\"";
/// assert!(Experiment::parse("mine.toml", text).is_err(), "the built-in ones only");
/// assert_eq!(Experiment::parse_with("mine.toml", text, &schedulers)?.schedulers.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Schedulers {
    /// What is registered beside the built-in ones, and the identity of that code.
    own: Option<(Arc<Register>, Arc<str>)>,
}

impl Schedulers {
    /// The built-in schedulers, and those that `register` adds. It is called for each run anew, as each run has a registry of
    /// its own.
    ///
    /// `identity` is a name of the code behind them, such as a hash of it. It becomes a part of the identity of the build
    /// ([`build`](Self::build)), so that results of other code are not taken up.
    ///
    /// # Errors
    ///
    /// What `register` returns, such as a name that is taken.
    pub fn with(
        identity: &str,
        register: impl Fn(&mut Registry) -> Result<(), RegistryError> + Send + Sync + 'static,
    ) -> Result<Self, RegistryError> {
        register(&mut built_in())?;
        Ok(Self {
            own: Some((Arc::new(register), identity.into())),
        })
    }

    /// The same for a program that has its schedulers compiled in. Their identity is a hash of the program's file.
    ///
    /// # Errors
    ///
    /// What `register` returns, such as a name that is taken.
    pub fn of_program(
        register: impl Fn(&mut Registry) -> Result<(), RegistryError> + Send + Sync + 'static,
    ) -> Result<Self, RegistryError> {
        Self::with(&build::program(), register)
    }

    /// A registry with all of them.
    pub(crate) fn registry(&self) -> Registry {
        let mut registry = built_in();
        if let Some((register, _)) = &self.own {
            // It succeeded in `with`. If it fails now, the names that it did not register are unknown.
            let _ = register(&mut registry);
        }
        registry
    }

    /// The identity of the build: what two results must have in common for their trace hashes to be comparable. It has the
    /// version of this crate, a hash of the sources of the simulator, the protocol and the schedulers, the features that matter,
    /// and the identity of the program's own schedulers.
    pub fn build(&self) -> String {
        let identity = build::identity();
        match &self.own {
            Some((_, own)) => format!("{identity}+{own}"),
            None => identity,
        }
    }
}

/// The built-in schedulers, and those of the lab.
fn built_in() -> Registry {
    #[cfg(feature = "neural")]
    let mut registry = mpquic_sched_neural::registry();
    #[cfg(not(feature = "neural"))]
    let mut registry = Registry::new();
    // Only a built-in scheduler of the same name could be in the way, and would then be the one that is meant.
    let _ = own::register(&mut registry);
    let _ = replica::register(&mut registry);
    registry
}

impl fmt::Debug for Schedulers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedulers")
            .field("build", &self.build())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mpquic_sched::{MinRtt, MinRttConfig};

    use super::*;

    #[test]
    fn schedulers_of_the_program_are_a_part_of_the_build() {
        let make = |name: &'static str, identity: &str| {
            Schedulers::with(identity, move |registry| {
                registry.register(name, |config: &MinRttConfig| MinRtt::new(config))?;
                Ok(())
            })
        };
        let (plain, mine) = (Schedulers::default(), make("mine", "a").unwrap());
        let other = make("mine", "b").unwrap();
        assert!(mine.registry().names().any(|name| name == "mine"));
        assert!(!plain.registry().names().any(|name| name == "mine"));
        assert!(mine.build().starts_with(&plain.build()));
        assert_ne!(mine.build(), other.build());
        let taken = make("minrtt", "a").unwrap_err();
        assert_eq!(taken, RegistryError::NameTaken("minrtt".into()));
    }
}
