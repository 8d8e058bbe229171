//! Commands of cargo as the pages have them: whether what they name exists, and which program they would run.

use std::collections::HashSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What a command asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Run {
        program: String,
        example: bool,
        arguments: Vec<String>,
    },
    Install,
    /// `build`, `test`, `bench` and others: what they name exists.
    Checked,
}

/// The packages of the repository.
pub struct Workspace {
    packages: Vec<Value>,
    default: HashSet<String>,
}

/// The real one, wherever the page's stand-ins are.
pub fn program() -> PathBuf {
    let given = env::var_os("CARGO").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let found = || {
        env::split_paths(&path)
            .map(|folder| folder.join("cargo"))
            .find(|cargo| cargo.exists())
    };
    given.or_else(found).unwrap_or_else(|| "cargo".into())
}

/// Without what the cargo that started this program says of its package: the build scripts of dependencies would see a change of
/// it, and all that depends on them would be built again.
pub fn forget_own_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|of_package| text.starts_with(of_package))
        {
            command.env_remove(name);
        }
    }
}

/// The compiler beside it.
pub fn rustc() -> PathBuf {
    let beside = program().with_file_name("rustc");
    if beside.exists() {
        beside
    } else {
        "rustc".into()
    }
}

/// The arguments of cargo, and those of the program behind `--`.
pub fn split(arguments: &[String]) -> (&[String], &[String]) {
    match arguments.iter().position(|argument| argument == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[]),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

/// The flags of a command, checked against a list: so a page cannot name one that cargo does not have.
#[derive(Default)]
struct Flags {
    packages: Vec<String>,
    features: Vec<String>,
    /// Kind (`bin`, `example`, `test`, `bench`) and name.
    target: Option<(String, String)>,
    path: Option<String>,
    profile: Option<String>,
    manifest: Option<String>,
}

impl Flags {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut flags = Self::default();
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let (flag, joined) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (flag.as_str(), None),
            };
            let mut value = || {
                let next = joined.clone().or_else(|| rest.next().cloned());
                next.ok_or_else(|| format!("{flag} needs a value"))
            };
            match flag {
                "-p" | "--package" => flags.packages.push(value()?),
                "--features" => flags
                    .features
                    .extend(value()?.split(',').map(str::to_owned)),
                "--bin" | "--example" | "--test" | "--bench" => {
                    flags.target = Some((flag[2..].to_owned(), value()?));
                }
                "--path" => flags.path = Some(value()?),
                "--profile" => flags.profile = Some(value()?),
                "--manifest-path" => flags.manifest = Some(value()?),
                "--release"
                | "--locked"
                | "--workspace"
                | "--all-targets"
                | "--no-default-features"
                | "-q"
                | "--quiet"
                | "--doc"
                | "--lib"
                | "--all"
                | "--check"
                | "--no-deps"
                | "--no-run"
                | "--open" => {}
                // The filter of `cargo test`.
                word if !word.starts_with('-') => {}
                flag => return Err(format!("the runner does not know cargo's flag {flag}")),
            }
        }
        Ok(flags)
    }
}

impl Workspace {
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut command = Command::new(program());
        command
            .args([
                "metadata",
                "--no-deps",
                "--offline",
                "--format-version",
                "1",
            ])
            .current_dir(root);
        let done = command
            .output()
            .map_err(|error| format!("cargo metadata: {error}"))?;
        if !done.status.success() {
            return Err(format!(
                "cargo metadata: {}",
                String::from_utf8_lossy(&done.stderr)
            ));
        }
        let all: Value = serde_json::from_slice(&done.stdout)
            .map_err(|error| format!("cargo metadata: {error}"))?;
        let default = list(&all, "workspace_default_members").filter_map(Value::as_str);
        let default = default.map(str::to_owned).collect();
        let packages = list(&all, "packages").cloned().collect();
        Ok(Self { packages, default })
    }

    /// The names of its packages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().map(|package| name(package))
    }

    /// What a command asks for, or what of it does not exist. `root` is where it is typed.
    pub fn check(&self, root: &Path, arguments: &[String]) -> Result<Asked, String> {
        let (of_cargo, of_program) = split(arguments);
        let [verb, of_cargo @ ..] = of_cargo else {
            return Err("expected a command of cargo".to_owned());
        };
        let flags = Flags::read(of_cargo)?;
        self.profile(root, flags.profile.as_deref())?;
        if let Some(manifest) = &flags.manifest {
            // Of another workspace, which is not looked into.
            let exists = root.join(manifest).exists();
            return exists
                .then_some(Asked::Checked)
                .ok_or_else(|| format!("there is no {manifest}"));
        }
        let asked = match verb.as_str() {
            "run" => return self.run(&flags, of_program),
            "install" => {
                let path = flags
                    .path
                    .as_deref()
                    .ok_or("expected --path: nothing of this is on a registry")?;
                self.package_at(&root.join(path))?;
                Asked::Install
            }
            "build" | "check" | "clippy" | "test" | "bench" | "doc" | "fmt" | "tree" => {
                let packages = self.chosen(&flags)?;
                if let Some((kind, target)) = &flags.target {
                    Self::target(&packages, kind, target)?;
                }
                Asked::Checked
            }
            "fuzz" | "add" | "package" | "info" => Asked::Checked,
            verb => return Err(format!("the runner does not know `cargo {verb}`")),
        };
        Ok(asked)
    }

    fn profile(&self, root: &Path, profile: Option<&str>) -> Result<(), String> {
        let Some(profile) =
            profile.filter(|profile| !["dev", "release", "test", "bench"].contains(profile))
        else {
            return Ok(());
        };
        let text = std::fs::read_to_string(root.join("Cargo.toml"))
            .map_err(|error| format!("Cargo.toml: {error}"))?;
        let table: toml::Table = text
            .parse()
            .map_err(|error| format!("Cargo.toml: {error}"))?;
        let found = table
            .get("profile")
            .and_then(|profiles| profiles.get(profile));
        found
            .map(|_| ())
            .ok_or_else(|| format!("there is no profile `{profile}`"))
    }

    pub fn package_at(&self, folder: &Path) -> Result<&Value, String> {
        let manifest = folder.join("Cargo.toml");
        let manifest = manifest
            .canonicalize()
            .map_err(|error| format!("{}: {error}", manifest.display()))?;
        let same = |package: &&Value| {
            package["manifest_path"]
                .as_str()
                .is_some_and(|path| Path::new(path) == manifest)
        };
        let found = self.packages.iter().find(same);
        found.ok_or_else(|| format!("{} is no package of the workspace", folder.display()))
    }

    /// That a package has a feature.
    pub fn feature(package: &Value, feature: &str) -> Result<(), String> {
        let known = package["features"].get(feature).is_some();
        known
            .then_some(())
            .ok_or_else(|| format!("{} has no feature `{feature}`", name(package)))
    }

    fn chosen(&self, flags: &Flags) -> Result<Vec<&Value>, String> {
        let chosen: Vec<&Value> = if flags.packages.is_empty() {
            let default = |package: &&Value| {
                package["id"]
                    .as_str()
                    .is_some_and(|id| self.default.contains(id))
            };
            self.packages.iter().filter(default).collect()
        } else {
            let find = |wanted: &String| {
                let found = self.packages.iter().find(|package| name(package) == wanted);
                found.ok_or_else(|| format!("there is no package `{wanted}`"))
            };
            flags.packages.iter().map(find).collect::<Result<_, _>>()?
        };
        for feature in &flags.features {
            // Of several packages, one has it.
            let (package, feature) = match feature.split_once('/') {
                Some((package, feature)) => (Some(package), feature),
                None => (None, feature.as_str()),
            };
            let mut of = chosen
                .iter()
                .filter(|chosen| package.is_none_or(|package| name(chosen) == package));
            if !of.any(|package| Self::feature(package, feature).is_ok()) {
                return Err(format!("no chosen package has the feature `{feature}`"));
            }
        }
        Ok(chosen)
    }

    fn target<'a>(packages: &[&'a Value], kind: &str, target: &str) -> Result<&'a Value, String> {
        let mut targets = packages.iter().flat_map(|package| list(package, "targets"));
        let same =
            |found: &&Value| name(found) == target && list(found, "kind").any(|of| of == kind);
        targets
            .find(same)
            .ok_or_else(|| format!("no chosen package has the {kind} `{target}`"))
    }

    fn run(&self, flags: &Flags, arguments: &[String]) -> Result<Asked, String> {
        let packages = self.chosen(flags)?;
        let (example, program) = match &flags.target {
            Some((kind, target)) => {
                Self::target(&packages, kind, target)?;
                (kind == "example", target.clone())
            }
            None => {
                let targets = packages.iter().flat_map(|package| list(package, "targets"));
                let bins: Vec<_> = targets
                    .filter(|found| list(found, "kind").any(|of| of == "bin"))
                    .collect();
                let run = packages
                    .iter()
                    .find_map(|package| package["default_run"].as_str());
                match (bins.as_slice(), run) {
                    (_, Some(run)) => (false, run.to_owned()),
                    ([one], None) => (false, name(one).to_owned()),
                    _ => return Err(format!("{} programs to run: --bin says which", bins.len())),
                }
            }
        };
        Ok(Asked::Run {
            program,
            example,
            arguments: arguments.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Asked, String> {
        let root = crate::root();
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Workspace::read(&root)?.check(&root, &words)
    }

    #[test]
    fn what_a_command_names_exists() {
        let run = |program: &str, example, arguments: &[&str]| Asked::Run {
            program: program.to_owned(),
            example,
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        };
        assert_eq!(
            check("run --release --example download"),
            Ok(run("download", true, &[]))
        );
        let lab = check("run -p mpquic-lab -- run x.toml --seeds 3");
        assert_eq!(
            lab,
            Ok(run("mpquic-lab", false, &["run", "x.toml", "--seeds", "3"]))
        );
        assert_eq!(
            check("run -p mpquic-specs -- rfc10069"),
            Ok(run("mpquic-specs", false, &["rfc10069"]))
        );
        assert_eq!(check("install --path crates/cp"), Ok(Asked::Install));
        for fine in [
            "test --workspace",
            "test -p mpquic-proto --test suite migration",
            "bench --bench transfer",
            "run --manifest-path tests/book/Cargo.toml",
        ] {
            assert_eq!(check(fine), Ok(Asked::Checked), "{fine}");
        }
    }

    #[test]
    fn what_it_names_and_does_not_exist_is_told() {
        let refused = [
            (
                "run --example downlod",
                "no chosen package has the example `downlod`",
            ),
            ("run -p mpquic-none", "there is no package `mpquic-none`"),
            (
                "run -p mpquic-cp --features tickets",
                "no chosen package has the feature `tickets`",
            ),
            (
                "run --exmaple download",
                "the runner does not know cargo's flag --exmaple",
            ),
            (
                "install mpquic-cp",
                "expected --path: nothing of this is on a registry",
            ),
            ("build --profile small", "there is no profile `small`"),
            ("rn", "the runner does not know `cargo rn`"),
        ];
        for (line, why) in refused {
            assert_eq!(check(line), Err(why.to_owned()), "{line}");
        }
    }
}
