//! The Python blocks of a page, in one interpreter: what the first ones define, the later ones use.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::blocks::Block;
use crate::documents::{AS_IT_STANDS, Outcome, finish};
use crate::stand_ins::Page;

/// Unoptimised, and with hundreds of runs.
const LIMIT: Duration = Duration::from_secs(400);

/// Says per block, by its line: `ran`, `left out` with the module that is missing, or `failed`.
const DRIVER: &str = r#"
import json, sys, traceback
names = {"__name__": "__main__"}
for line, text in json.load(open(sys.argv[1])):
    try:
        exec(compile("\n" * line + text, sys.argv[2], "exec"), names)
        print("BOOK", line, "ran", flush=True)
    except ModuleNotFoundError as missing:
        print("BOOK", line, "left out", missing, flush=True)
    except BaseException:
        print("BOOK", line, "failed", traceback.format_exc().replace("\n", "\t"), flush=True)
"#;

/// What became of each block of Python, by its line.
pub fn run(page: &Page, blocks: &[Block]) -> BTreeMap<usize, Outcome> {
    let blocks: Vec<_> = blocks
        .iter()
        .filter(|block| block.language() == "python")
        .collect();
    let all = |outcome: &Outcome| {
        blocks
            .iter()
            .map(|block| (block.line, outcome.clone()))
            .collect()
    };
    let module = match module(page) {
        Ok(module) => module,
        Err(why) => return all(&Outcome::LeftOut(why)),
    };
    let texts: Vec<_> = blocks
        .iter()
        .map(|block| (block.line, &block.text))
        .collect();
    let (list, driver) = (
        page.folder.join("blocks.json"),
        page.folder.join("driver.py"),
    );
    let written = fs::write(&list, serde_json::json!(texts).to_string())
        .and_then(|()| fs::write(&driver, DRIVER));
    if let Err(error) = written {
        return all(&Outcome::Failed(error.to_string()));
    }
    let mut python = Command::new(module.python);
    python
        .arg(driver)
        .arg(list)
        .args(blocks.first().map(|block| &block.page));
    python
        .current_dir(page.folder.join("mpquic"))
        .env("PYTHONPATH", module.folder)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let (said, ended) = finish(page, &mut python, LIMIT);
    let mut outcomes: BTreeMap<usize, Outcome> =
        all(&Outcome::Failed(format!("was not run: {ended:?}\n{said}")));
    for line in said.lines().filter_map(|line| line.strip_prefix("BOOK ")) {
        let Some((number, rest)) = line.split_once(' ') else {
            continue;
        };
        let outcome = match rest.strip_prefix("left out ") {
            Some(missing) => Outcome::LeftOut(missing.to_owned()),
            None if rest == "ran" => AS_IT_STANDS,
            None => Outcome::Failed(rest.replace('\t', "\n")),
        };
        if let Ok(number) = number.parse() {
            outcomes.insert(number, outcome);
        }
    }
    outcomes
}

struct Module {
    python: PathBuf,
    folder: PathBuf,
}

/// The module as `.ci/run` builds it, and an interpreter that has numpy.
fn module(page: &Page) -> Result<Module, String> {
    let library = page.target.join("debug/lib_native.so");
    if !library.exists() {
        return Err("the module is not built: .ci/run builds it".to_owned());
    }
    let own = page.target.join("python/bin/python");
    let known = [
        env::var_os("PYTHON").map(PathBuf::from),
        Some("python3".into()),
        Some(own),
    ];
    let needs = [
        "-c",
        "import sys, numpy; assert sys.version_info >= (3, 10)",
    ];
    let works = |python: &PathBuf| {
        Command::new(python)
            .args(needs)
            .output()
            .is_ok_and(|done| done.status.success())
    };
    let python = known.into_iter().flatten().find(works);
    let python = python.ok_or("there is no Python 3.10 or later with numpy")?;
    let folder = page.folder.join("python");
    let to = folder.join("mpquic_lab");
    let made = fs::create_dir_all(&to).and_then(|()| {
        for entry in fs::read_dir(page.root.join("python/mpquic_lab"))? {
            let path = entry?.path();
            if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                fs::copy(&path, to.join(name))?;
            }
        }
        fs::copy(&library, to.join("_native.abi3.so"))
    });
    made.map_err(|error| format!("the module: {error}"))?;
    Ok(Module { python, folder })
}
