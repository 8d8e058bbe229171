//! What a scheduler written in Python sees and is told, with the names of the Rust contract; seconds and bytes.

use std::time::{Duration, Instant};

use mpquic_sched as core;
use mpquic_sched::{PathStatus, PathUpdateKind, StreamUpdateKind};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Adds the classes to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Context>()?;
    module.add_class::<PathView>()?;
    module.add_class::<QueueView>()?;
    module.add_class::<StreamView>()?;
    module.add_class::<Sent>()?;
    module.add_class::<Acked>()?;
    module.add_class::<Lost>()?;
    module.add_class::<PathUpdate>()?;
    module.add_class::<StreamUpdate>()
}

/// Instants as seconds since the first that the scheduler was told.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    pub(crate) fn seconds(&mut self, at: Instant) -> f64 {
        let origin = *self.0.get_or_insert(at);
        match at.checked_duration_since(origin) {
            Some(since) => since.as_secs_f64(),
            None => -(origin - at).as_secs_f64(),
        }
    }

    /// The instant of so many seconds, to the nanosecond; `None` if there is none.
    pub(crate) fn instant(self, seconds: f64) -> Option<Instant> {
        let since = Duration::try_from_secs_f64(seconds).ok()?;
        self.0?.checked_add(since)
    }
}

/// All that a decision may rest on.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct Context {
    now: f64,
    paths: Py<PyTuple>,
    queue: Py<QueueView>,
    streams: Py<PyTuple>,
    decision: u64,
    sendable: Py<PyTuple>,
}

impl Context {
    pub(crate) fn new(py: Python<'_>, clock: &mut Clock, cx: &core::Context<'_>) -> PyResult<Self> {
        let paths = cx.paths.iter().map(|path| PathView::new(clock, path));
        let paths: Vec<_> = paths
            .map(|path| Py::new(py, path))
            .collect::<PyResult<_>>()?;
        let ready = cx.sendable_set().iter().map(|index| &paths[index.get()]);
        let sendable = PyTuple::new(py, ready.collect::<Vec<_>>())?;
        let streams = cx
            .streams
            .iter()
            .map(|stream| StreamView::new(clock, stream));
        let streams: Vec<_> = streams.collect();
        Ok(Self {
            now: clock.seconds(cx.now),
            paths: PyTuple::new(py, &paths)?.unbind(),
            queue: Py::new(py, QueueView::new(cx.queue))?,
            streams: PyTuple::new(py, streams)?.unbind(),
            decision: cx.decision,
            sendable: sendable.unbind(),
        })
    }
}

/// One path as the sender knows it.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct PathView {
    index: usize,
    id: u32,
    open: bool,
    can_send: bool,
    suspect: bool,
    backup: bool,
    next_release: Option<f64>,
    smoothed_rtt: f64,
    latest_rtt: f64,
    min_rtt: f64,
    rtt_var: f64,
    pto: f64,
    pto_count: u32,
    cwnd: u64,
    ssthresh: Option<u64>,
    in_flight: u64,
    mtu: u16,
    sent_packets: u64,
    lost_packets: u64,
    retransmitted_packets: u64,
    delivered_bytes: u64,
    delivery_rate: u64,
    pacing_rate: u64,
    last_acked: Option<f64>,
    last_sent: Option<f64>,
    rtt_history: Vec<f64>,
    standing: u8,
    rtt_rank: u64,
    has_rtt: bool,
    capacity: u64,
    window_left: u64,
}

impl PathView {
    fn new(clock: &mut Clock, path: &core::PathView) -> Self {
        let history = path.rtt_history.iter();
        Self {
            index: path.index.get(),
            id: path.id.0,
            open: path.open,
            can_send: path.can_send,
            suspect: path.suspect,
            backup: path.status == PathStatus::Backup,
            next_release: path.next_release.map(|at| clock.seconds(at)),
            smoothed_rtt: path.smoothed_rtt.as_secs_f64(),
            latest_rtt: path.latest_rtt.as_secs_f64(),
            min_rtt: path.min_rtt.as_secs_f64(),
            rtt_var: path.rtt_var.as_secs_f64(),
            pto: path.pto.as_secs_f64(),
            pto_count: path.pto_count,
            cwnd: path.cwnd,
            ssthresh: Some(path.ssthresh).filter(|bytes| *bytes != u64::MAX),
            in_flight: path.in_flight,
            mtu: path.mtu,
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            retransmitted_packets: path.retransmitted_packets,
            delivered_bytes: path.delivered_bytes,
            delivery_rate: path.delivery_rate,
            pacing_rate: path.pacing_rate,
            last_acked: path.last_acked.map(|at| clock.seconds(at)),
            last_sent: path.last_sent.map(|at| clock.seconds(at)),
            rtt_history: history.map(|micros| f64::from(micros) / 1e6).collect(),
            standing: path.standing(),
            rtt_rank: path.rtt_rank(),
            has_rtt: path.has_rtt(),
            capacity: path.capacity(),
            window_left: path.window_left(),
        }
    }
}

/// What there is to send, over all streams.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct QueueView {
    unsent: u64,
    retransmittable: u64,
    window_left: u64,
    flow_control_window: u64,
    blocked_by: Option<usize>,
    out_of_order: u64,
    in_flight: u64,
    control: bool,
}

impl QueueView {
    fn new(queue: &core::QueueView) -> Self {
        Self {
            unsent: queue.unsent,
            retransmittable: queue.retransmittable,
            window_left: queue.window_left,
            flow_control_window: queue.flow_control_window,
            blocked_by: queue.blocked_by.map(core::PathIndex::get),
            out_of_order: queue.out_of_order,
            in_flight: queue.in_flight,
            control: queue.control,
        }
    }
}

/// One stream that has data to send.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct StreamView {
    id: u64,
    priority: i32,
    unsent: u64,
    retransmittable: u64,
    sent: u64,
    size: Option<u64>,
    deadline: Option<f64>,
    chunk: Option<u64>,
    tag: Option<u64>,
}

impl StreamView {
    fn new(clock: &mut Clock, stream: &core::StreamView) -> Self {
        Self {
            id: stream.id.into(),
            priority: stream.priority,
            unsent: stream.unsent,
            retransmittable: stream.retransmittable,
            sent: stream.sent,
            size: stream.size,
            deadline: stream.deadline.map(|at| clock.seconds(at)),
            chunk: stream.chunk,
            tag: stream.tag,
        }
    }
}

/// A scheduled packet left.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct Sent {
    path: usize,
    now: f64,
    size: u16,
    decision: u64,
    retransmission: bool,
    new_bytes: u16,
}

impl Sent {
    pub(crate) fn new(clock: &mut Clock, event: &core::Sent) -> Self {
        Self {
            path: event.path.get(),
            now: clock.seconds(event.now),
            size: event.size,
            decision: event.decision,
            retransmission: event.retransmission,
            new_bytes: event.new_bytes,
        }
    }
}

/// A packet was acknowledged for the first time.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct Acked {
    path: usize,
    now: f64,
    sent: f64,
    size: u16,
    rtt: Option<f64>,
    decision: Option<u64>,
    contiguous: u64,
}

impl Acked {
    pub(crate) fn new(clock: &mut Clock, event: &core::Acked) -> Self {
        Self {
            path: event.path.get(),
            now: clock.seconds(event.now),
            sent: clock.seconds(event.sent),
            size: event.size,
            rtt: event.rtt.map(|rtt| rtt.as_secs_f64()),
            decision: event.decision,
            contiguous: event.contiguous,
        }
    }
}

/// A packet was declared lost.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct Lost {
    path: usize,
    now: f64,
    sent: f64,
    size: u16,
    decision: Option<u64>,
}

impl Lost {
    pub(crate) fn new(clock: &mut Clock, event: &core::Lost) -> Self {
        Self {
            path: event.path.get(),
            now: clock.seconds(event.now),
            sent: clock.seconds(event.sent),
            size: event.size,
            decision: event.decision,
        }
    }
}

/// Something happened to a path.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct PathUpdate {
    path: usize,
    id: u32,
    now: f64,
    kind: &'static str,
}

impl PathUpdate {
    pub(crate) fn new(clock: &mut Clock, event: &core::PathUpdate) -> Self {
        Self {
            path: event.path.get(),
            id: event.id.0,
            now: clock.seconds(event.now),
            kind: match event.kind {
                PathUpdateKind::Opened => "opened",
                PathUpdateKind::Validated => "validated",
                PathUpdateKind::Moved => "moved",
                PathUpdateKind::Status(PathStatus::Available) => "available",
                PathUpdateKind::Status(PathStatus::Backup) => "backup",
                PathUpdateKind::Suspect => "suspect",
                PathUpdateKind::Recovered => "recovered",
                PathUpdateKind::Abandoned => "abandoned",
                _ => "other",
            },
        }
    }
}

/// Something happened to a stream that is sent on.
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct StreamUpdate {
    id: u64,
    kind: &'static str,
    written: Option<u64>,
    size: Option<u64>,
    deadline: Option<f64>,
    chunk: Option<u64>,
}

impl StreamUpdate {
    pub(crate) fn new(clock: &mut Clock, event: &core::StreamUpdate) -> Self {
        let mut this = Self {
            id: event.id.into(),
            kind: "other",
            written: None,
            size: None,
            deadline: None,
            chunk: None,
        };
        this.kind = match event.kind {
            StreamUpdateKind::Opened => "opened",
            StreamUpdateKind::Written(bytes) => {
                this.written = Some(bytes);
                "written"
            }
            StreamUpdateKind::Finished => "finished",
            StreamUpdateKind::FullyAcked => "fully_acked",
            StreamUpdateKind::Reset => "reset",
            StreamUpdateKind::Hint(hints) => {
                this.size = hints.size;
                this.deadline = hints.deadline.map(|at| clock.seconds(at));
                this.chunk = hints.chunk;
                "hint"
            }
            _ => "other",
        };
        this
    }
}
