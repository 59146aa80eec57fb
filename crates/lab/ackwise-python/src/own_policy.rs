//! Policies that are Python objects, called by the simulator.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ackwise_policy::{Event, EventFlags, EventKind, HostedPolicy, Verdict};
use ackwise_sim::OwnPolicy;
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::number;
use crate::policy::shown;

/// The module in which Python defines the events and verdicts of policies.
const MODULE: &str = "ackwise._policy";

/// The first exception of a policy, which ends the runs.
#[derive(Clone)]
pub struct Failure {
    first: Arc<Mutex<Option<PyErr>>>,
    cancel: Arc<AtomicBool>,
}

impl Failure {
    /// No exception yet. An exception will set `cancel`.
    pub fn new(cancel: &Arc<AtomicBool>) -> Self {
        Self {
            first: Arc::default(),
            cancel: Arc::clone(cancel),
        }
    }

    fn raise(&self, error: PyErr) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Whether the runs are ending, so that no further answer counts.
    fn ends(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Takes the exception, if one was raised.
    pub fn take(&self) -> Option<PyErr> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.take()
    }
}

/// Makes a policy for each flow.
pub struct Factory {
    name: String,
    make: Py<PyAny>,
    classes: Arc<Classes>,
    failure: Failure,
}

/// The Python classes that a step needs.
struct Classes {
    event: Py<PyAny>,
    verdict: Py<PyAny>,
}

impl Factory {
    /// `make` is called for each flow, and returns an object with a method `step`.
    pub fn new(py: Python<'_>, name: &str, make: Py<PyAny>, failure: &Failure) -> PyResult<Self> {
        let module = py.import(MODULE)?;
        Ok(Self {
            name: format!("python:{name}"),
            make,
            classes: Arc::new(Classes {
                event: module.getattr("Event")?.unbind(),
                verdict: module.getattr("Verdict")?.unbind(),
            }),
            failure: failure.clone(),
        })
    }

    fn made(&self, py: Python<'_>) -> PyResult<Asked> {
        let object = self.make.bind(py).call0()?;
        let step = object.getattr("step")?;
        if !step.is_callable() {
            let kind = object.get_type().name()?;
            let why = format!("the step of {kind} is not a method");
            return Err(PyTypeError::new_err(why));
        }
        let wants = |name: &str| match object.getattr(name) {
            Ok(answer) => answer.is_truthy(),
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => Ok(true),
            Err(error) => Err(error),
        };
        Ok(Asked {
            reads_time: wants("reads_time")?,
            sees_data: wants("sees_data")?,
            step: step.unbind(),
        })
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Factory({})", self.name)
    }
}

impl OwnPolicy for Factory {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn for_flow(&self) -> Box<dyn HostedPolicy> {
        let made = || Python::attach(|py| self.made(py));
        let asked = (!self.failure.ends()).then(made);
        let asked = asked.and_then(|made| made.map_err(|error| self.failure.raise(error)).ok());
        Box::new(OfFlow {
            asked,
            classes: Arc::clone(&self.classes),
            failure: self.failure.clone(),
        })
    }
}

/// The Python object of a flow, with what is known about it.
struct Asked {
    step: Py<PyAny>,
    reads_time: bool,
    sees_data: bool,
}

/// The policy of one flow. After any exception or signal it lets everything pass until
/// the runs have ended.
struct OfFlow {
    asked: Option<Asked>,
    classes: Arc<Classes>,
    failure: Failure,
}

impl OfFlow {
    fn ask(&self, py: Python<'_>, asked: &Asked, event: &Event) -> PyResult<Verdict> {
        let given = self.classes.event(py, event)?;
        let answer = asked.step.bind(py).call1((&given,))?;
        let counts = event.kind == EventKind::Ack && !event.flags.contains(EventFlags::MUST_SEND);
        match counts {
            true => self.classes.verdict(py, &answer, &given),
            false => Ok(Verdict::Send),
        }
    }
}

impl HostedPolicy for OfFlow {
    fn reads_time(&self) -> bool {
        self.asked.as_ref().is_none_or(|asked| asked.reads_time)
    }

    fn step(&mut self, event: &Event) -> Verdict {
        let Some(asked) = &self.asked else {
            return Verdict::Send;
        };
        let wants_event = event.kind != EventKind::Data || asked.sees_data;
        if !wants_event || self.failure.ends() {
            return Verdict::Send;
        }
        let answer = Python::attach(|py| self.ask(py, asked, event));
        answer.unwrap_or_else(|error| {
            self.failure.raise(error);
            Verdict::Send
        })
    }
}

impl Classes {
    fn event<'py>(&self, py: Python<'py>, event: &Event) -> PyResult<Bound<'py, PyAny>> {
        let kind = match event.kind {
            EventKind::Data => intern!(py, "data"),
            EventKind::Ack => intern!(py, "ack"),
            EventKind::Deadline => intern!(py, "deadline"),
        };
        let flags: Vec<String> = event
            .flags
            .iter_names()
            .map(|(name, _)| shown(name))
            .collect();
        let flags = PyTuple::new(py, flags)?;
        let mut all = vec![
            kind.as_any().clone(),
            event.now_us.into_pyobject(py)?.into_any(),
            flags.into_any(),
        ];
        // In the order of the class's fields.
        let numbers = [
            event.bytes,
            event.segments,
            event.len,
            event.hops,
            event.peer_wnd,
            event.mss,
            event.rcv_wnd,
            event.srtt_us,
            event.min_rtt_us,
            event.hold_us,
        ];
        for number in numbers {
            all.push(number.into_pyobject(py)?.into_any());
        }
        self.event.bind(py).call1(PyTuple::new(py, all)?)
    }

    fn verdict(
        &self,
        py: Python<'_>,
        answer: &Bound<'_, PyAny>,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<Verdict> {
        if !answer.is_instance(self.verdict.bind(py))? {
            let (answer, given) = (answer.repr()?, given.repr()?);
            return Err(PyTypeError::new_err(format!(
                "step returned {answer}, which is not an ackwise.Verdict\n  it was asked about {given}\n  \
                 return Verdict(\"send\"), or Verdict(\"hold\", MICROSECONDS)"
            )));
        }
        let refused = |why: &str| -> PyResult<Verdict> {
            let (answer, given) = (answer.repr()?, given.repr()?);
            Err(PyValueError::new_err(format!(
                "step returned {answer}: {why}\n  it was asked about {given}"
            )))
        };
        let kind = answer.getattr(intern!(py, "kind"))?;
        let hold_us = answer.getattr(intern!(py, "hold_us"))?;
        if kind.eq(intern!(py, "send"))? {
            return Ok(Verdict::Send);
        }
        if !kind.eq(intern!(py, "hold"))? {
            return refused("the kind must be 'send' or 'hold'");
        }
        if hold_us.is_none() {
            return Ok(Verdict::Hold { us: 0 });
        }
        match hold_us.extract::<u64>() {
            // The contract's bound is lower anyway.
            Ok(us @ 1..) => Ok(Verdict::Hold {
                us: u32::try_from(us).unwrap_or(u32::MAX),
            }),
            Err(error) if number::is_out_of_range(py, &error) && hold_us.gt(0)? => {
                Ok(Verdict::Hold { us: u32::MAX })
            }
            _ => refused("hold_us must be a whole number of microseconds, 1 or more, or None"),
        }
    }
}
