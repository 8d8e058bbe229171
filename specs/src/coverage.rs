//! Which requirements the citations cover.

use std::ops::Range;

use crate::citation::{Citation, Kind};
use crate::deviations::Deviation;
use crate::specification::{Level, Requirement, Section, Specification};

/// The specifications with their citations.
#[derive(Debug)]
pub struct Coverage {
    /// In the order of the settings.
    pub specifications: Vec<Specification>,
    /// Those whose quote was found.
    pub citations: Vec<Found>,
    /// Those whose quote is not where they say, and why.
    pub wrong: Vec<(Citation, String)>,
    /// The sections that the page of deviations names.
    pub deviations: Vec<Deviation>,
}

/// A citation and its place in the text.
#[derive(Debug)]
pub struct Found {
    /// What was cited.
    pub citation: Citation,
    specification: usize,
    section: usize,
    range: Range<usize>,
}

/// A requirement and what covers it.
#[derive(Debug)]
pub struct Judged<'a> {
    /// Its section.
    pub section: &'a Section,
    /// The sentence.
    pub requirement: &'a Requirement,
    /// What touches it.
    pub citations: Vec<&'a Citation>,
    /// All of it is implemented.
    pub met: bool,
    /// All of it is tested.
    pub tested: bool,
    /// All of it is excepted.
    pub excepted: bool,
}

impl Judged<'_> {
    /// Met but for what an exception says.
    pub fn deviates(&self) -> bool {
        self.met && self.excepted
    }

    /// Neither met nor excepted.
    pub fn is_missing(&self) -> bool {
        !self.met && !self.excepted
    }
}

/// How many requirements of one level there are, and how many of them are what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub total: usize,
    /// Implemented, without exception.
    pub met: usize,
    /// Implemented and tested.
    pub tested: usize,
    /// Excepted with a reason.
    pub excepted: usize,
    /// Neither implemented nor excepted.
    pub missing: usize,
}

impl Coverage {
    /// Looks up each quote.
    pub fn new(specifications: Vec<Specification>, citations: Vec<Citation>) -> Self {
        let mut found = Vec::new();
        let mut wrong = Vec::new();
        for citation in citations {
            match look_up(&specifications, &citation) {
                Ok((specification, section, range)) => found.push(Found {
                    citation,
                    specification,
                    section,
                    range,
                }),
                Err(why) => wrong.push((citation, why)),
            }
        }
        Self {
            specifications,
            citations: found,
            wrong,
            deviations: Vec::new(),
        }
    }

    /// Sections that the page of deviations names, with requirements of which no exception says what is different.
    pub fn unexplained(&self) -> Vec<&Deviation> {
        let explained = |deviation: &&Deviation| {
            let named = format!("rfc{}.txt", deviation.rfc);
            let known = self.specifications.iter();
            let Some(index) = known.clone().position(|one| one.path.ends_with(&named)) else {
                return true;
            };
            let judged = self.judge(index);
            let mut here = judged
                .iter()
                .filter(|judged| judged.section.id == deviation.section);
            here.clone().next().is_none() || here.any(|judged| judged.excepted)
        };
        let all = self.deviations.iter();
        all.filter(|deviation| !explained(deviation)).collect()
    }

    /// The requirements of a specification in the order of its text.
    pub fn judge(&self, specification: usize) -> Vec<Judged<'_>> {
        let mut judged = Vec::new();
        for (index, section) in self.specifications[specification]
            .sections
            .iter()
            .enumerate()
        {
            let here =
                |found: &&Found| found.specification == specification && found.section == index;
            let here: Vec<&Found> = self.citations.iter().filter(here).collect();
            for requirement in &section.requirements {
                let touches = |found: &&&Found| overlap(&found.range, &requirement.range);
                let touching: Vec<&Found> = here.iter().filter(touches).copied().collect();
                let covered = |kinds: &[Kind]| {
                    let of_kind = touching
                        .iter()
                        .filter(|found| kinds.contains(&found.citation.kind));
                    is_covered(
                        &requirement.range,
                        of_kind.map(|found| found.range.clone()).collect(),
                    )
                };
                judged.push(Judged {
                    section,
                    requirement,
                    met: covered(&[Kind::Implementation, Kind::Implication]),
                    tested: covered(&[Kind::Test, Kind::Implication]),
                    excepted: covered(&[Kind::Exception]),
                    citations: touching.iter().map(|found| &found.citation).collect(),
                });
            }
        }
        judged
    }

    /// The counts of one level.
    pub fn counts(&self, specification: usize, level: Level) -> Counts {
        let mut counts = Counts::default();
        for judged in self.judge(specification) {
            if judged.requirement.level == level {
                counts.total += 1;
                let met = judged.met && !judged.excepted;
                counts.met += usize::from(met);
                counts.tested += usize::from(met && judged.tested);
                counts.excepted += usize::from(judged.excepted);
                counts.missing += usize::from(judged.is_missing());
            }
        }
        counts
    }
}

fn look_up(
    specifications: &[Specification],
    citation: &Citation,
) -> Result<(usize, usize, Range<usize>), String> {
    let specification = specifications
        .iter()
        .position(|specification| specification.path == citation.target)
        .ok_or_else(|| format!("there is no specification {:?}", citation.target))?;
    let sections = &specifications[specification].sections;
    let section = sections
        .iter()
        .position(|section| section.id == citation.section)
        .ok_or_else(|| format!("{} has no section {:?}", citation.target, citation.section))?;
    let range = sections[section].find(&citation.quote).ok_or_else(|| {
        format!(
            "{}#{} does not say {:?}",
            citation.target, citation.section, citation.quote
        )
    })?;
    Ok((specification, section, range))
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Whether the ranges together cover `whole`.
fn is_covered(whole: &Range<usize>, mut ranges: Vec<Range<usize>>) -> bool {
    ranges.sort_by_key(|range| range.start);
    let mut reached = whole.start;
    for range in ranges {
        if range.start <= reached {
            reached = reached.max(range.end);
        }
    }
    reached >= whole.end
}

#[cfg(test)]
mod tests;
