//! How much repair: the rates that can be chosen, and who chooses.

use mpquic_bandit::{DiscountedMeans, Draw, Hedge, LinUcb, LinUcbConfig};

/// The rates of repair that a learner chooses from: repair packets for each source packet.
pub const RATES: [f64; ARMS] = [0.0, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.33, 0.5, 1.0];

/// How many they are.
pub(super) const ARMS: usize = 10;

/// What a frame counts after each further one: a memory of 500 frames.
const DISCOUNT: f64 = 0.998;

/// The most frames that what was learned earlier counts for.
const EARLIER: f64 = 30.0;

/// How many frames the belief counts for that a flow begins with, where no copy of what is lost would be in time. It counts for less
/// with each frame, as frames do.
const BELIEVED: f64 = 20.0;

/// That belief: so many frames are late without repair, and none with a rate of [`ENOUGH`]. Ours, of lossy networks; of one that loses
/// nothing, it costs bytes for two seconds.
const LATE: f64 = 0.03;
const ENOUGH: f64 = 0.33;

/// How LinUCB explores.
const ALPHA: f64 = 0.3;

/// Who chooses the rate of repair. All are held back by headroom: what the paths can carry beyond what is sent anyway. Without that,
/// repair makes the queue that makes the lateness that asks for repair.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Repair {
    /// Learned by replay: of each frame, its packets' fates tell for every rate whether it would have been in time. The rate with the
    /// largest discounted mean of these less the price of its bytes is taken.
    #[default]
    Learned,
    /// The same replay, but the rate is drawn by [`Hedge`], which has a bound against any sequence and forgets nothing.
    Hedge,
    /// LinUCB on the outcomes of its own choices, to compare with.
    LinUcb,
    /// Four times the share of losses where a copy would come too late, once where it would not, to compare with.
    Rule,
    /// Always this rate, from 0 (no repair) to 1.
    Fixed(f64),
}

/// What a choice may depend on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Situation {
    /// The share of packets that are lost.
    pub(super) loss: f64,
    /// What sending again takes, over the deadline.
    pub(super) again: f64,
    /// What it takes at least, over the deadline.
    pub(super) soonest: f64,
}

impl Situation {
    const fn features(self) -> [f64; 3] {
        [
            1.0,
            self.loss,
            if self.again < 2.0 { self.again } else { 2.0 },
        ]
    }
}

/// What replay has learned of a pair of paths, to be kept for the next connection over the same.
///
/// ```
/// use mpquic_live::Learned;
///
/// let bytes = Learned::default().to_bytes();
/// assert_eq!(Learned::from_bytes(&bytes), Ok(Learned::default()));
/// assert!(Learned::from_bytes(b"another version").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Learned {
    means: [f64; ARMS],
    weight: f64,
}

/// Bytes that are not what [`Learned::to_bytes`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not those of a learner of this version")]
pub struct NotLearned;

impl Learned {
    /// The version of the format, and how many bytes it has.
    const VERSION: u8 = 1;
    const LEN: usize = 1 + 8 * (ARMS + 1);

    /// 89 bytes: the version, then the frames that count and the mean of each of [`RATES`], as IEEE 754 doubles, big-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION];
        for number in std::iter::once(&self.weight).chain(&self.means) {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. The bytes are untrusted: whoever can write them can make a sender begin with
    /// any rate, for a few seconds.
    ///
    /// # Errors
    ///
    /// If they are of another version or length, or numbers are not those of a learner.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotLearned> {
        if bytes.len() != Self::LEN || bytes[0] != Self::VERSION {
            return Err(NotLearned);
        }
        let (numbers, _) = bytes[1..].as_chunks::<8>();
        let number = |place: usize| f64::from_be_bytes(numbers[place]);
        let read = Self {
            weight: number(0),
            means: std::array::from_fn(|arm| number(arm + 1)),
        };
        match read.restore() {
            Some(_) => Ok(read),
            None => Err(NotLearned),
        }
    }

    fn restore(&self) -> Option<DiscountedMeans<ARMS>> {
        DiscountedMeans::restore(DISCOUNT, &self.means, self.weight, EARLIER).ok()
    }

    /// How many frames it is made of, those that are long past counting for less.
    pub fn frames(&self) -> f64 {
        self.weight
    }

    /// Of each of [`RATES`], the share of frames that would have been in time.
    pub fn means(&self) -> &[f64; ARMS] {
        &self.means
    }
}

#[derive(Debug)]
enum Chooser {
    Learned(DiscountedMeans<ARMS>),
    Hedge(Hedge<ARMS>, Draw),
    LinUcb(Box<LinUcb<f64, 3, ARMS>>),
    Rule,
    Fixed(f64),
}

/// Chooses the rate, frame by frame.
#[derive(Debug)]
pub(super) struct Rates {
    chooser: Chooser,
    /// Points of frames per share of bytes.
    price: f64,
    /// For how many frames the belief counts now; `None` before the first frame.
    believed: Option<f64>,
}

impl Rates {
    pub(super) fn new(repair: Repair, price: f64, seed: u64) -> Self {
        let chooser = match repair {
            Repair::Learned => Chooser::Learned(DiscountedMeans::new(DISCOUNT)),
            Repair::Hedge => Chooser::Hedge(Hedge::new(), Draw::new(seed)),
            Repair::LinUcb => Chooser::LinUcb(Box::new(LinUcb::new(&LinUcbConfig::default()))),
            Repair::Rule => Chooser::Rule,
            Repair::Fixed(rate) if rate > 0.0 => Chooser::Fixed(rate.min(1.0)),
            Repair::Fixed(_) => Chooser::Fixed(0.0),
        };
        Self {
            chooser,
            price,
            believed: None,
        }
    }

    /// The rate for the next frame; and which of [`RATES`] it is, to be told to [`learn`](Self::learn).
    pub(super) fn choose(&mut self, situation: Situation) -> (f64, usize) {
        let arm = match &mut self.chooser {
            Chooser::Learned(means) => {
                let begins = if situation.soonest > 1.0 {
                    BELIEVED
                } else {
                    0.0
                };
                let believed = *self.believed.get_or_insert(begins);
                select(means, believed, self.price)
            }
            Chooser::Hedge(hedge, draw) => hedge.select(draw),
            Chooser::LinUcb(model) => model.select(ALPHA, &situation.features()),
            Chooser::Rule => {
                let factor = if situation.again > 1.0 { 4.0 } else { 1.0 };
                // A loss in a thousand is nobody's concern.
                let loss = if situation.loss < 0.001 {
                    0.0
                } else {
                    situation.loss
                };
                return ((factor * loss).min(0.5), 0);
            }
            Chooser::Fixed(rate) => return (*rate, 0),
        };
        (RATES[arm], arm)
    }

    /// What every rate would have brought for a frame, for which `arm` had been chosen.
    pub(super) fn learn(&mut self, rewards: &[f64; ARMS], arm: usize, situation: Situation) {
        if let Some(believed) = &mut self.believed {
            *believed *= DISCOUNT;
        }
        let net = |arm: usize| rewards[arm] - self.price * RATES[arm];
        // Rewards are probabilities, so that nothing is refused.
        let _ = match &mut self.chooser {
            Chooser::Learned(means) => means.update(rewards),
            // From 0 to 1, as its bound wants them.
            Chooser::Hedge(hedge, _) => hedge.update(&std::array::from_fn(|arm| {
                (net(arm) + self.price) / (1.0 + self.price)
            })),
            Chooser::LinUcb(model) => model.update(arm, &situation.features(), net(arm)),
            Chooser::Rule | Chooser::Fixed(_) => Ok(()),
        };
    }

    pub(super) fn learned(&self) -> Option<Learned> {
        match &self.chooser {
            Chooser::Learned(means) => Some(Learned {
                means: means.means(),
                weight: means.weight(),
            }),
            _ => None,
        }
    }

    pub(super) fn go_on_from(&mut self, learned: &Learned) {
        if let (Chooser::Learned(means), Some(earlier)) = (&mut self.chooser, learned.restore()) {
            *means = earlier;
            self.believed = Some(0.0);
        }
    }
}

/// The rate with the largest mean less its price, where the belief counts for so many frames.
fn select(means: &DiscountedMeans<ARMS>, believed: f64, price: f64) -> usize {
    if believed <= 0.0 {
        return means.select(price, &RATES);
    }
    let (known, weight) = (means.means(), means.weight());
    let net = |arm: usize| {
        let belief = 1.0 - LATE * (1.0 - RATES[arm] / ENOUGH).max(0.0);
        (known[arm] * weight + belief * believed) / (weight + believed) - price * RATES[arm]
    };
    (1..ARMS).fold(0, |best, arm| if net(arm) > net(best) { arm } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_decides() {
        let rewards = RATES.map(|rate| if rate >= 0.15 { 1.0 } else { 0.9 + rate * 0.2 });
        for (price, expected) in [(0.02, 0.15), (1.0, 0.0)] {
            let mut rates = Rates::new(Repair::Learned, price, 1);
            assert_eq!(rates.choose(Situation::default()).0, 0.0);
            for _ in 0..30 {
                rates.learn(&rewards, 0, Situation::default());
            }
            assert_eq!(rates.choose(Situation::default()).0, expected);
            let learned = Learned::from_bytes(&rates.learned().unwrap().to_bytes()).unwrap();
            let mut next = Rates::new(Repair::Learned, price, 1);
            next.go_on_from(&learned);
            assert_eq!(next.choose(Situation::default()).0, expected);
        }
    }

    #[test]
    fn a_belief_that_is_not_true_yields() {
        let far = Situation {
            soonest: 1.5,
            ..Situation::default()
        };
        let mut rates = Rates::new(Repair::Learned, 0.02, 1);
        assert_eq!(rates.choose(far).0, ENOUGH);
        // Nothing is late: two seconds of a camera.
        for _ in 0..75 {
            rates.learn(&[1.0; ARMS], 0, far);
        }
        assert_eq!(rates.choose(far).0, 0.0);
        // It is no frame of its own.
        assert_eq!(rates.learned().unwrap().means(), &[1.0; ARMS]);
        // Where copies come in time, and where more is known, there is none.
        for (soonest, earlier) in [(0.9, None), (1.5, rates.learned())] {
            let mut next = Rates::new(Repair::Learned, 0.02, 1);
            if let Some(earlier) = earlier {
                next.go_on_from(&earlier);
            }
            assert_eq!(next.choose(Situation { soonest, ..far }).0, 0.0);
        }
    }

    #[test]
    fn others_to_compare_with() {
        let lossy = Situation {
            loss: 0.02,
            again: 1.5,
            soonest: 1.5,
        };
        assert_eq!(Rates::new(Repair::Rule, 0.1, 1).choose(lossy).0, 0.08);
        assert_eq!(
            Rates::new(Repair::Rule, 0.1, 1)
                .choose(Situation {
                    again: 0.5,
                    ..lossy
                })
                .0,
            0.02
        );
        assert_eq!(
            Rates::new(Repair::Fixed(0.05), 0.1, 1).choose(lossy).0,
            0.05
        );
        assert_eq!(
            Rates::new(Repair::Fixed(f64::NAN), 0.1, 1).choose(lossy).0,
            0.0
        );
        for repair in [Repair::Hedge, Repair::LinUcb] {
            let mut rates = Rates::new(repair, 0.1, 1);
            let mut last = 0;
            for _ in 0..3_000 {
                let (_, arm) = rates.choose(lossy);
                let rewards = RATES.map(|rate| if rate >= 0.2 { 1.0 } else { 0.0 });
                rates.learn(&rewards, arm, lossy);
                last = arm;
            }
            assert!((6..=7).contains(&last), "{repair:?}: {}", RATES[last]);
        }
    }

    #[test]
    fn bytes_that_are_refused() {
        let mut bytes = Learned {
            means: [0.5; ARMS],
            weight: 9.0,
        }
        .to_bytes();
        assert_eq!(bytes.len(), Learned::LEN);
        assert!(Learned::from_bytes(&bytes).is_ok());
        bytes[9] = 0x7f;
        assert_eq!(Learned::from_bytes(&bytes), Err(NotLearned));
        assert_eq!(Learned::from_bytes(&bytes[..88]), Err(NotLearned));
        assert_eq!(Learned::from_bytes(&[]), Err(NotLearned));
    }
}
