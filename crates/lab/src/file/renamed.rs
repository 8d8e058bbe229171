//! The names that experiment files had before they moved into folders by paper. They still work in this release.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Old and new names, without the ending `.toml`. Remove this table and this module in the release
/// after 0.1.
const RENAMED: [(&str, &str); 28] = [
    ("pb_f2", "peekaboo/fig02_dynamicity"),
    ("pb_f5a", "peekaboo/fig05a_loss"),
    ("pb_f5b", "peekaboo/fig05b_jitter"),
    ("pb_f6", "peekaboo/fig06_keep_probability"),
    ("pb_f7", "peekaboo/fig07_downloads"),
    ("pb_f8", "peekaboo/fig08_messages"),
    ("pb_f9", "peekaboo/fig09_redrawn"),
    ("pb_f10", "peekaboo/fig10_heat_maps"),
    ("dq_t1", "dqn/table1_chunk_tail"),
    ("dq_5_2", "dqn/sec5_2_unequal_delay"),
    ("dq_5_3", "dqn/sec5_3_lossy_path"),
    ("dq_5_5", "dqn/sec5_5_bitrate"),
    ("sf", "sailfish/ch6_pages"),
    ("uc_v", "csc579/fig04_competing_flows"),
    ("uc_1_2", "csc579/fig06_07_growing_delay"),
    ("ga_f2", "gaps/fig02_settings"),
    ("ga_f3", "gaps/fig03_subflows"),
    ("ga_f6", "gaps/fig06_distribution"),
    ("ga_f7", "gaps/fig07_fixed_gaps"),
    ("ga_f8", "gaps/fig08_loss_and_congestion"),
    ("ga_f9", "gaps/fig09_delay"),
    ("ga_f9_poor", "gaps/fig09_delay_poor"),
    ("ga_f10", "gaps/fig10_limited_buffers"),
    ("pb_f8_deadline", "ours/message_deadlines"),
    ("long", "ours/long_download"),
    ("dq_held", "ours/held_out_dqn"),
    ("sf_held", "ours/held_out_sailfish"),
    ("ga_held", "ours/held_out_gaps"),
];

/// The new path of an experiment file, or of a folder or file of results, whose path has an old
/// name. `None` if there is nothing to translate. A path that exists is never translated.
pub(crate) fn new_path(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    let components: Vec<_> = path.components().collect();
    // The last component is the most likely one: the file itself, or the folder of its results.
    (0..components.len())
        .rev()
        .filter_map(|at| Some((at, new_name(components[at])?)))
        .map(|(at, name)| {
            let before: PathBuf = components[..at].iter().collect();
            let after: PathBuf = components[at + 1..].iter().collect();
            let renamed = before.join(name);
            // Joining an empty path would add a slash at the end.
            if after.as_os_str().is_empty() {
                renamed
            } else {
                renamed.join(after)
            }
        })
        .find(|renamed| renamed.exists())
}

fn new_name(component: Component<'_>) -> Option<String> {
    let Component::Normal(name) = component else {
        return None;
    };
    let file = Path::new(name);
    let ending = match file.extension().map(OsStr::to_str) {
        None => "",
        Some(Some("toml")) => ".toml",
        Some(_) => return None,
    };
    let stem = file.file_stem()?.to_str()?;
    let (_, new) = RENAMED.iter().find(|(old, _)| *old == stem)?;
    Some(format!("{new}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiments() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
    }

    #[test]
    fn every_old_name_leads_to_a_file() {
        for (old, new) in RENAMED {
            let path = new_path(&experiments().join(format!("{old}.toml")));
            assert_eq!(path, Some(experiments().join(format!("{new}.toml"))));
        }
    }

    #[test]
    fn paths_that_exist_or_have_no_new_name_stay_as_they_are() {
        for name in [
            "quick.toml",
            "ours",
            "README.md",
            "pb_f2.json",
            "pb_f99.toml",
        ] {
            assert_eq!(new_path(&experiments().join(name)), None, "{name}");
        }
        // `long` is an old name, but its new path does not exist.
        assert_eq!(new_path(Path::new("no/such/long/results.jsonl")), None);
        assert_eq!(new_path(Path::new("")), None);
    }
}
