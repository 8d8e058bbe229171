//! What was experienced, to learn from again and again: a ring of transitions.

use mpquic_bandit::Draw;

use super::super::state::STATE;

/// What came of a decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transition {
    /// Scaled.
    pub(super) state: [f32; STATE],
    pub(super) action: u8,
    pub(super) reward: f32,
    /// The state of the next decision on the same chunk; `None` if the chunk ended.
    pub(super) next: Option<[f32; STATE]>,
}

/// The newest transitions, as many as there is room for.
#[derive(Debug)]
pub(super) struct Replay {
    ring: Vec<Transition>,
    room: usize,
    /// How many there ever were.
    total: u64,
}

impl Replay {
    /// Room for so many, at least one, taken now.
    pub(super) fn new(room: usize) -> Self {
        Self {
            ring: Vec::with_capacity(room.max(1)),
            room: room.max(1),
            total: 0,
        }
    }

    /// Adds one, in the place of the oldest if there is no room.
    pub(super) fn push(&mut self, transition: Transition) {
        if self.ring.len() < self.room {
            self.ring.push(transition);
        } else {
            let place = (self.total % self.room as u64) as usize;
            self.ring[place] = transition;
        }
        self.total += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// How many were ever added.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// One of them, each with the same probability; `None` if there is none.
    pub(super) fn sample(&self, draw: &mut Draw) -> Option<&Transition> {
        // Below the length, since `unit` is below 1.
        let place = (draw.unit() * self.ring.len() as f64) as usize;
        self.ring.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_and_all_of_them_are_drawn() {
        let mut replay = Replay::new(8);
        let mut draw = Draw::new(1);
        assert!(replay.sample(&mut draw).is_none());
        for number in 0..21 {
            replay.push(Transition {
                state: [0.0; STATE],
                action: 0,
                reward: number as f32,
                next: None,
            });
        }
        assert_eq!(
            (replay.len(), replay.total(), replay.ring.capacity()),
            (8, 21, 8)
        );
        let mut drawn = [0_u32; 21];
        for _ in 0..8000 {
            drawn[replay.sample(&mut draw).unwrap().reward as usize] += 1;
        }
        assert!(drawn[..13].iter().all(|count| *count == 0));
        // Five standard deviations of a binomial of 8000 with 1/8: 148.
        assert!(drawn[13..].iter().all(|count| count.abs_diff(1000) < 148));
    }
}
