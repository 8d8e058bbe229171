//! The recorded web pages from `data/`: their objects, sizes, weights and dependencies.
//!
//! Eight are the thesis' (`web_graphs.json`), twelve others are for training (`training_pages.json`).
//! The `_note` of each file says where the graphs come from, what was recorded, and what is assumed
//! (the sizes).

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use serde::Deserialize;

/// The eight pages of the thesis, and those that policies are trained on.
const GRAPHS: [&str; 2] = [
    include_str!("../../data/web_graphs.json"),
    include_str!("../../data/training_pages.json"),
];

/// The page with this name.
pub(crate) fn page(name: &str) -> Option<&'static PageGraph> {
    pages().get(name)
}

/// The names of all pages, for error messages.
pub(super) fn names() -> String {
    let names: Vec<_> = pages().keys().map(String::as_str).collect();
    names.join(", ")
}

fn pages() -> &'static BTreeMap<String, PageGraph> {
    static PAGES: OnceLock<BTreeMap<String, PageGraph>> = OnceLock::new();
    // Tests ensure that the files, which are part of the program, are valid.
    PAGES.get_or_init(|| GRAPHS.into_iter().filter_map(parse).flatten().collect())
}

/// A page as a graph of activities.
#[derive(Debug, Default)]
pub(crate) struct PageGraph {
    pub(crate) objects: Vec<Object>,
    /// Downloads (in the order of the objects), followed by computations.
    pub(crate) activities: Vec<Activity>,
}

/// Something to download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) bytes: u64,
    /// The weight that the Firefox mode of SAILfish's client gives it.
    pub(crate) weight: i32,
    /// Whether that mode requests it in its first wave. If not, it does so in the second.
    pub(crate) first_wave: bool,
    /// CSS or JavaScript; the second wave waits for these.
    pub(crate) blocking: bool,
}

/// A download or a computation.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) work: Work,
    /// It starts when all these conditions hold.
    pub(crate) after: Vec<After>,
}

/// What an activity does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Downloads the object with this index.
    Download(usize),
    Compute(Duration),
}

/// What an activity waits for, with the index of the other activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Completion(usize),
    /// The first bytes of a download.
    FirstBytes(usize),
    /// The start of the activity, plus this time.
    Start(usize, Duration),
}

#[derive(Deserialize)]
struct File {
    sites: BTreeMap<String, Site>,
}

#[derive(Deserialize)]
struct Site {
    objects: Vec<FileObject>,
}

#[derive(Deserialize)]
struct FileObject {
    download: String,
    class: String,
    size_bytes: Option<u64>,
    assumed_size_bytes: u64,
    weights: [i32; 3],
    firefox_wave: u8,
    comp_start: String,
    #[serde(default)]
    depends_on: Vec<Dependency>,
    #[serde(default)]
    comps: Vec<Computation>,
}

#[derive(Deserialize)]
struct Computation {
    id: String,
    ms: f64,
    #[serde(default)]
    depends_on: Vec<Dependency>,
}

/// The object, its activity, and the time: -1 for the activity's completion, otherwise milliseconds
/// after its start.
type Dependency = (String, String, f64);

fn parse(text: &str) -> Option<BTreeMap<String, PageGraph>> {
    let file: File = serde_json::from_str(text).ok()?;
    let site = |(name, site)| Some((name, graph(&site)?));
    file.sites.into_iter().map(site).collect()
}

fn graph(site: &Site) -> Option<PageGraph> {
    let downloads = site.objects.iter().map(|object| object.download.as_str());
    let comps = site.objects.iter().flat_map(|object| &object.comps);
    let ids = downloads.chain(comps.map(|comp| comp.id.as_str()));
    let index: BTreeMap<&str, usize> = ids.zip(0..).collect();

    let after = |list: &[Dependency]| -> Option<Vec<After>> {
        list.iter()
            .map(|(_, activity, ms)| {
                let activity = *index.get(activity.as_str())?;
                Some(if *ms < 0.0 {
                    After::Completion(activity)
                } else {
                    After::Start(activity, millis(*ms))
                })
            })
            .collect()
    };
    let mut graph = PageGraph::default();
    for (number, object) in site.objects.iter().enumerate() {
        graph.objects.push(Object {
            bytes: object.size_bytes.unwrap_or(object.assumed_size_bytes),
            weight: object.weights[0],
            first_wave: object.firefox_wave == 1,
            blocking: matches!(object.class.as_str(), "css" | "js"),
        });
        graph.activities.push(Activity {
            work: Work::Download(number),
            after: after(&object.depends_on)?,
        });
    }
    for (number, object) in site.objects.iter().enumerate() {
        for (place, comp) in object.comps.iter().enumerate() {
            let mut after = after(&comp.depends_on)?;
            after.push(if place > 0 {
                After::Completion(graph.activities.len() - 1)
            } else if object.comp_start == "first_chunk" {
                After::FirstBytes(number)
            } else {
                After::Completion(number)
            });
            graph.activities.push(Activity {
                work: Work::Compute(millis(comp.ms)),
                after,
            });
        }
    }
    Some(graph)
}

fn millis(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_pages_are_those_of_the_thesis() {
        // The numbers of objects in table 5.1, and the file's own totals of assumed bytes.
        for (name, objects, bytes) in [
            ("google", 6, 133_391),
            ("twitter", 10, 434_837),
            ("facebook", 21, 471_144),
            ("youtube", 25, 448_969),
            ("renren", 35, 705_364),
            ("dropbox", 35, 771_038),
            ("alipay", 40, 617_574),
            ("aws.amazon", 47, 959_006),
        ] {
            let page = page(name).unwrap();
            assert_eq!(page.objects.len(), objects, "{name}");
            let total: u64 = page.objects.iter().map(|object| object.bytes).sum();
            assert_eq!(total, bytes, "{name}");
            // One root waits for nothing. Everything else waits for something.
            let roots = page.activities.iter().filter(|one| one.after.is_empty());
            assert_eq!(roots.count(), 1, "{name}");
        }
        assert_eq!(parse(GRAPHS[0]).unwrap().len(), 8);
    }

    #[test]
    fn the_training_pages_are_others_of_35_to_84_objects() {
        let (thesis, training) = (parse(GRAPHS[0]).unwrap(), parse(GRAPHS[1]).unwrap());
        assert_eq!(training.len(), 12);
        assert_eq!(pages().len(), thesis.len() + training.len());
        for (name, page) in &training {
            let objects = page.objects.len();
            assert!((35..=84).contains(&objects), "{name}: {objects}");
            let roots = page.activities.iter().filter(|one| one.after.is_empty());
            assert_eq!(roots.count(), 1, "{name}");
            // Both waves of the thesis' client have something.
            let waves = page.objects.iter().filter(|object| object.first_wave);
            assert!((1..objects).contains(&waves.count()), "{name}");
        }
    }

    #[test]
    fn google_is_as_in_the_file() {
        let google = page("google").unwrap();
        let root = google.objects[0];
        assert_eq!(
            (root.bytes, root.weight, root.first_wave),
            (29_079, 32, false)
        );
        // Its script starts 151.5 ms after the root's computation, which starts with the root's
        // first bytes and takes 1021.2 ms.
        let comp = &google.activities[6];
        assert_eq!(comp.work, Work::Compute(Duration::from_micros(1_021_200)));
        assert_eq!(comp.after, [After::FirstBytes(0)]);
        assert_eq!(google.activities[1].work, Work::Download(1));
        let after = After::Start(6, Duration::from_micros(151_500));
        assert_eq!(google.activities[1].after, [after]);
    }
}
