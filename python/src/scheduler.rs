//! A scheduler whose decisions are made by a Python object: asks it, tells it, and holds on to what it raises.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mpquic_sched::{
    Acked, Context, Data, Decision, Lost, PathIndex, PathSet, PathUpdate, Scheduler, Sent,
    StreamId, StreamUpdate, VarInt,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};

use crate::views::{self, Clock};

/// What Python raised first, and the flag that ends the runs once it has.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    raised: Mutex<Option<PyErr>>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Fault {
    fn raise(&self, error: PyErr) {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// What was raised, if anything was. The next runs start anew.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.stop.store(false, Ordering::Relaxed);
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.take()
    }
}

/// An answer: one packet.
///
/// `path` is a slot or a `PathView`; `data` says what the packet carries: "next" (the transport's order), "retransmit"
/// (nothing new), "control", "reinject" (a copy of what is in flight elsewhere), "redundant", "stream" (data of the stream
/// `stream`), or "ahead" (new data beyond `gap` bytes). `copies` are further slots that carry a copy of it.
#[pyclass(frozen, name = "Send", module = "mpquic_lab")]
pub(crate) struct SendPacket(Decision);

#[pymethods]
impl SendPacket {
    #[new]
    #[pyo3(signature = (path, data = "next", *, stream = None, gap = None, copies = Vec::new()))]
    fn new(
        path: &Bound<'_, PyAny>,
        data: &str,
        stream: Option<u64>,
        gap: Option<u64>,
        copies: Vec<usize>,
    ) -> PyResult<Self> {
        let wrong = |what: &str| Err(PyValueError::new_err(what.to_owned()));
        let data = match (data, stream, gap) {
            ("next", None, None) => Data::Next,
            ("retransmit", None, None) => Data::Retransmit,
            ("control", None, None) => Data::Control,
            ("reinject", None, None) => Data::Reinject,
            ("redundant", None, None) => Data::Redundant,
            ("stream", Some(id), None) => match VarInt::from_u64(id) {
                Ok(id) => Data::Stream(StreamId::from(id)),
                Err(_) => return wrong("stream: no such number"),
            },
            ("ahead", None, Some(gap)) => Data::Ahead(gap),
            ("stream", ..) => {
                return wrong("data \"stream\" goes with `stream`, and with nothing else");
            }
            ("ahead", ..) => return wrong("data \"ahead\" goes with `gap`, and with nothing else"),
            (_, None, None) => {
                return Err(PyValueError::new_err(format!(
                    "unknown data \"{data}\", expected one of next, retransmit, control, reinject, redundant, stream, ahead"
                )));
            }
            _ => return wrong("`stream` and `gap` go with data \"stream\" and \"ahead\" only"),
        };
        let copies = copies.into_iter().map(slot);
        Ok(Self(Decision::Send {
            path: slot_of(path)?,
            data,
            copies: copies.collect::<PyResult<PathSet>>()?,
        }))
    }
}

/// An answer: nothing now. Asked again at the next ack, loss, write or path event, or at `until` (s, as `Context.now`).
#[pyclass(frozen, get_all, module = "mpquic_lab")]
pub(crate) struct Wait {
    until: Option<f64>,
}

#[pymethods]
impl Wait {
    #[new]
    #[pyo3(signature = (until = None))]
    const fn new(until: Option<f64>) -> Self {
        Self { until }
    }
}

fn slot(number: usize) -> PyResult<PathIndex> {
    PathIndex::new(number)
        .ok_or_else(|| PyValueError::new_err(format!("there is no slot {number}")))
}

/// A slot, given its number or the view of its path.
fn slot_of(path: &Bound<'_, PyAny>) -> PyResult<PathIndex> {
    let number = match path.extract::<usize>() {
        Ok(number) => number,
        Err(_) => path.getattr("index")?.extract()?,
    };
    slot(number)
}

/// Which methods the object has of its own; the others are not called.
#[derive(Debug, Clone, Copy, Default)]
struct Wants {
    sent: bool,
    acked: bool,
    lost: bool,
    path: bool,
    stream: bool,
    streams: bool,
}

/// A scheduler made by calling a Python class.
pub(crate) struct InPython {
    object: Option<Py<PyAny>>,
    wants: Wants,
    clock: Clock,
    fault: Arc<Fault>,
}

impl InPython {
    /// Calls `make` with the configuration as keyword arguments.
    pub(crate) fn new(make: &Py<PyAny>, config: &Map<String, Value>, fault: &Arc<Fault>) -> Self {
        let mut this = Self {
            object: None,
            wants: Wants::default(),
            clock: Clock::default(),
            fault: Arc::clone(fault),
        };
        let made = Python::attach(|py| {
            let json = py.import("json")?;
            let text = Value::Object(config.clone()).to_string();
            let config = json.call_method1("loads", (text,))?;
            let made = make.bind(py).call((), Some(config.cast::<PyDict>()?))?;
            made.getattr("decide")?;
            let has = |name: &str| -> PyResult<bool> {
                match made.getattr_opt(name)? {
                    // The base class marks what it does nothing in.
                    Some(method) => Ok(method.getattr_opt("_does_nothing")?.is_none()),
                    None => Ok(false),
                }
            };
            let wants = Wants {
                sent: has("on_sent")?,
                acked: has("on_acked")?,
                lost: has("on_lost")?,
                path: has("on_path")?,
                stream: has("on_stream")?,
                streams: match made.getattr_opt("wants_streams")? {
                    Some(flag) => flag.is_truthy()?,
                    None => false,
                },
            };
            Ok((made.unbind(), wants))
        });
        match made {
            Ok((object, wants)) => (this.object, this.wants) = (Some(object), wants),
            Err(error) => fault.raise(error),
        }
        this
    }

    /// Calls a method with what `event` makes, if something wants it.
    fn tell<E>(&mut self, wanted: bool, method: &str, event: impl FnOnce(&mut Clock) -> E)
    where
        E: pyo3::PyClass + Into<PyClassInitializer<E>>,
    {
        let (true, Some(object)) = (wanted, &self.object) else {
            return;
        };
        let event = event(&mut self.clock);
        let told = Python::attach(|py| {
            let event = Py::new(py, event)?;
            object.call_method1(py, method, (event,)).map(|_| ())
        });
        if let Err(error) = told {
            self.fault.raise(error);
        }
    }

    fn ask(&mut self, cx: &Context<'_>) -> PyResult<Decision> {
        let Some(object) = &self.object else {
            return Ok(Decision::Wait { until: None });
        };
        let clock = &mut self.clock;
        Python::attach(|py| {
            let context = Py::new(py, views::Context::new(py, clock, cx)?)?;
            let answer = object.call_method1(py, "decide", (context,))?;
            let answer = answer.bind(py);
            let decision = if answer.is_none() {
                Decision::Wait { until: None }
            } else if let Ok(wait) = answer.cast::<Wait>() {
                let until = wait.get().until;
                let until = until.and_then(|seconds| clock.instant(seconds));
                Decision::Wait {
                    until: until.filter(|until| *until > cx.now),
                }
            } else if let Ok(send) = answer.cast::<SendPacket>() {
                send.get().0
            } else {
                let path = slot_of(answer).map_err(|_| {
                    let kind = answer.get_type();
                    PyTypeError::new_err(format!(
                        "decide() returned {kind}, expected a path, its slot, Send, Wait or None"
                    ))
                })?;
                Decision::send(path)
            };
            if let Decision::Send { path, .. } = decision
                && !cx.path(path).is_some_and(|view| view.can_send)
            {
                return Err(PyValueError::new_err(format!(
                    "decide() chose path {path}, which cannot send now"
                )));
            }
            Ok(decision)
        })
    }
}

impl Scheduler for InPython {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.ask(cx).unwrap_or_else(|error| {
            self.fault.raise(error);
            Decision::Wait { until: None }
        })
    }

    fn on_sent(&mut self, event: &Sent) {
        self.tell(self.wants.sent, "on_sent", |clock| {
            views::Sent::new(clock, event)
        });
    }

    fn on_acked(&mut self, event: &Acked) {
        self.tell(self.wants.acked, "on_acked", |clock| {
            views::Acked::new(clock, event)
        });
    }

    fn on_lost(&mut self, event: &Lost) {
        self.tell(self.wants.lost, "on_lost", |clock| {
            views::Lost::new(clock, event)
        });
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.tell(self.wants.path, "on_path", |clock| {
            views::PathUpdate::new(clock, event)
        });
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.tell(self.wants.stream, "on_stream", |clock| {
            views::StreamUpdate::new(clock, event)
        });
    }

    fn wants_streams(&self) -> bool {
        self.wants.streams
    }
}
