//! SAILfish: a policy binds each stream to one path when it is first scheduled; its parts are in modules of their own.

mod config;
mod ledger;
mod path_choice;
mod state;

pub use config::{Rates, SailfishConfig};

use path_choice::PathChoice;

use mpquic_sched::neural::{Experience, NeuralScheduler, Observer, Policy};
use mpquic_sched::support::binding::BoundStreams;
use mpquic_sched::{
    Acked, Context, Decision, Learned, Lost, PathUpdate, PathUpdateKind, Scheduler, Sent,
    StreamUpdate, StreamUpdateKind,
};

use crate::model::Shipped;

/// Binds each stream to one path, as its policy says when the stream is first scheduled.
///
/// **Rule.** A stream that is to send its first bytes is bound to one of the usable paths (the open ones with the best
/// [standing](mpquic_sched::PathView::standing)) in the slots 0 to 3: its policy is asked once, with the state below, and the
/// path is drawn from the softmax of its logits over these paths, or is the one with the largest logit
/// ([`sample`](SailfishConfig::sample)). From then on it is served as [`StreamMinRtt`](mpquic_sched::StreamMinRtt) serves its
/// streams: all that it sends goes to its path, streams are bound and served by descending priority and by turns among
/// equals, control frames and datagrams go first and on the fastest path, a path in trouble is gone around, and a
/// stream whose path ended is bound to the fastest one, once more without asking.
///
/// The policy is not asked where there is nothing to choose: while one path is open, or one of the four is usable. A
/// stream that has begun by the time a second path opens is bound to the fastest. Paths in slots 4 and up get streams
/// only while none of the first four is usable, the fastest of them with room first. An answer that cannot be followed,
/// one that leaves all probability to paths that cannot be chosen among them, is counted, and the stream is bound to
/// the fastest path with room, as stream-based minRTT would.
///
/// **State**, [1, 4, 13], a row for each slot, all 0 where the path cannot be chosen: whether it can, its rate in Mbit/s
/// ([`rates`](SailfishConfig::rates)), how many packets were retransmitted or lost on it since it opened, its smoothed RTT
/// in ms at this decision and at the seven before it (0 where there was no path or no sample), kB in flight on it and to
/// be sent by streams bound to it (as far as they are in view), and the stream's size in kB (what the application
/// hinted, or all that it wrote if it is finished; 0 if it is not known). **Answer**: four logits.
///
/// **Reward**, of each stream that the policy was asked about, once it is acknowledged in full:
/// (rate - 1)/99 of its path, less its completion time in seconds, less 0.8 times the sum of (RTT - 1)/120 over the paths,
/// less [`loss_weight`](SailfishConfig::loss_weight) times the sum of packets/20 over the paths; all but the time as
/// in the state of its decision. The completion time begins when the scheduler is first told a time after the stream's
/// first bytes were written, and ends with the acknowledgement that completes it. The reward of a stream after which none
/// is open is the last of an episode. A stream that is reset earns nothing.
///
/// **Source.** Kanakis, "SAILfish" (MSc thesis, 2020), and its code. There, the state's rates are
/// those configured at the links, only two paths can be chosen among, and only while both have room
/// ([`all_have_room`](SailfishConfig::all_have_room)); completion is the arrival of the response's headers. Ours: any
/// number of paths up to four by a network that is the same for each, bytes bound and the stream's size in the state, estimated
/// rates, completion of the whole stream, and all that concerns paths that fail.
///
/// **Cost.** That of stream-based minRTT, and once for each stream an inference and a walk over the streams that wait,
/// each with a binary search. At most 16,384 streams are known of, with less than 100 bytes each; the room for them is
/// made when they are written to, not when they are scheduled.
///
/// ```
/// let scheduler = mpquic_sched_neural::registry().build("sailfish", &serde_json::json!({"seed": 7}))?;
/// let policy = scheduler.learned().and_then(|learned| learned.policy).unwrap();
/// assert!(policy.engine.starts_with("plan"));
/// # Ok::<(), mpquic_sched::RegistryError>(())
/// ```
pub struct Sailfish {
    streams: BoundStreams,
    choice: PathChoice,
}

impl Sailfish {
    /// What the policy is shown of each path, name and unit, in the order of the state.
    pub const FEATURES: &[(&str, &str)] = &state::FEATURES;

    /// Elements of the state.
    pub const STATE: usize = state::STATE;

    /// Elements of the policy's answer: a logit for each slot.
    pub const OUTPUTS: usize = state::MOST_PATHS;

    pub(crate) const SHIPPED: Shipped = Shipped {
        onnx: include_bytes!("../../models/sailfish.onnx"),
        card: include_bytes!("../../models/sailfish.json"),
        shape: &[1, state::MOST_PATHS, state::FEATURES.len()],
        axis: 2,
        features: Self::FEATURES,
        outputs: Self::OUTPUTS,
    };

    /// A scheduler with these settings that asks this policy, whatever [`model`](SailfishConfig::model) says.
    pub fn new(config: &SailfishConfig, policy: Box<dyn Policy>) -> Self {
        Self {
            streams: BoundStreams::new(),
            choice: PathChoice::new(config, policy),
        }
    }

    /// The same scheduler, watched: each decision of the policy with the slot of the path as its action, and each
    /// reward.
    #[must_use]
    pub fn with_observer(mut self, observer: Box<dyn FnMut(&Experience<'_>) + Send>) -> Self {
        self.choice.watch(observer);
        self
    }
}

impl Scheduler for Sailfish {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.choice.begin(cx);
        self.streams.decide(cx, &mut self.choice)
    }

    fn on_sent(&mut self, event: &Sent) {
        self.choice.ledger.at(event.now);
        self.streams.on_sent(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.choice.ledger.at(event.now);
        self.streams.on_path(event);
        match event.kind {
            PathUpdateKind::Opened => self.choice.open(event.path),
            PathUpdateKind::Moved | PathUpdateKind::Abandoned => self.choice.forget(event.path),
            _ => {}
        }
    }

    fn on_acked(&mut self, event: &Acked) {
        self.choice.ledger.at(event.now);
        self.streams.on_change();
    }

    fn on_lost(&mut self, event: &Lost) {
        self.choice.ledger.at(event.now);
        self.streams.on_change();
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.streams.on_stream(event);
        let ledger = &mut self.choice.ledger;
        match event.kind {
            StreamUpdateKind::Written(bytes) => ledger.written(event.id, bytes),
            StreamUpdateKind::Finished => ledger.finished(event.id),
            StreamUpdateKind::FullyAcked => self.choice.pay(event.id),
            StreamUpdateKind::Reset => self.choice.drop_stream(event.id),
            _ => {}
        }
        self.streams.make_room(self.choice.ledger.len());
    }

    fn wants_streams(&self) -> bool {
        true
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new("sailfish");
        learned.arms = self.choice.arms();
        learned.policy = Some(self.choice.report());
        learned.dropped = self.choice.dropped();
        Some(learned)
    }
}

impl NeuralScheduler for Sailfish {
    const FEATURES: &'static [(&'static str, &'static str)] = Self::FEATURES;
    const STATE: usize = Self::STATE;

    fn actions() -> Vec<String> {
        vec!["slot".into()]
    }

    fn with_observer(self, observer: Observer) -> Self {
        self.with_observer(observer)
    }
}
