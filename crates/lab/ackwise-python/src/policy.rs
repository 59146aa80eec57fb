//! Policies, one event or one packet at a time: the C code of `policy/`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ackwise_policy::{
    Capabilities, Config, ConfigError, Decision, Event, EventFlags, EventKind, FlowConfig,
    Handshake, LinkKind, PolicyState, Reason, Segment, TcpFlags, Verdict, parse, sys,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{errors, number};

fn refused(py: Python<'_>, error: &ConfigError) -> PyErr {
    let text = format!("{error}\n  {}", error.advice());
    errors::raise(py, "PolicyError", (text,))
}

/// The error for a number that is no `u64`: there is no such parameter, or the number is out of
/// bounds, as any number this large is.
fn out_of_range(config: &mut Config, name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let py = value.py();
    let Err(error) = config.set_number(name, u64::MAX) else {
        return number::no_number(value, name);
    };
    let text = error.to_string();
    let text = match text.strip_suffix(&u64::MAX.to_string()) {
        Some(to_python) => format!("{to_python}{}", number::shown(value)),
        None => text,
    };
    errors::raise(
        py,
        "PolicyError",
        (format!("{text}\n  {}", error.advice()),),
    )
}

/// Parses a policy as written, e.g. `every-n:n=8`.
pub fn config(py: Python<'_>, text: &str) -> PyResult<Config> {
    text.parse().map_err(|e| refused(py, &e))
}

/// Name, unit, description, default, minimum and maximum of a parameter.
type Param = (&'static str, &'static str, &'static str, u32, u32, u32);

/// Name, summary, source, needs and parameters of each policy.
#[pyfunction]
pub fn policies() -> Vec<(&'static str, &'static str, &'static str, String, Vec<Param>)> {
    let about = |policy: ackwise_policy::Policy| {
        let params = policy.params().iter();
        let params = params.map(|p| (p.name, p.unit, p.doc, p.default, p.min, p.max));
        let needs = policy.needs().to_string();
        (
            policy.name(),
            policy.summary(),
            policy.source(),
            needs,
            params.collect(),
        )
    };
    ackwise_policy::Policy::all().map(about).collect()
}

/// The reasons of verdicts, and what they mean.
#[pyfunction]
pub fn reasons() -> Vec<(&'static str, &'static str)> {
    let all = Reason::all();
    all.map(|reason| (reason.name(), reason.what())).collect()
}

/// The bytes of a state, which have to be as many as this version's.
fn sized<const N: usize>(state: Vec<u8>) -> PyResult<[u8; N]> {
    let wrong = |it: Vec<u8>| format!("a state of {N} bytes is needed, not of {}", it.len());
    state
        .try_into()
        .map_err(|it| PyValueError::new_err(wrong(it)))
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A verdict: its kind, and how long the ACK may be held.
type PyVerdict = (&'static str, Option<u32>);

fn to_python(verdict: Verdict) -> PyVerdict {
    match verdict {
        Verdict::Send => ("send", None),
        Verdict::Hold { us } => ("hold", Some(us)),
        Verdict::Drop => ("drop", None),
    }
}

fn flag(name: &str) -> PyResult<EventFlags> {
    let upper = name.to_uppercase().replace('-', "_");
    EventFlags::from_name(&upper).ok_or_else(|| {
        let all = EventFlags::all();
        let known: Vec<String> = all.iter_names().map(|(name, _)| shown(name)).collect();
        let known = known.join(", ");
        PyValueError::new_err(format!("there is no flag '{name}'; there are {known}"))
    })
}

/// The name of a flag in Python.
pub fn shown(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

/// The numbers of an event, in the order in which Python passes them.
const NUMBERS: [&str; 10] = [
    "bytes",
    "segments",
    "len",
    "hops",
    "peer_wnd",
    "mss",
    "rcv_wnd",
    "srtt_us",
    "min_rtt_us",
    "hold_us",
];

/// A policy and the state of one flow.
#[pyclass(frozen, module = "ackwise._native")]
pub struct Policy {
    config: Config,
    state: Mutex<PolicyState>,
}

impl Policy {
    /// The policy with its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

#[pymethods]
impl Policy {
    #[new]
    fn new(py: Python<'_>, name: &str, params: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let mut config = config(py, name)?;
        for (name, value) in params {
            match value.extract() {
                Ok(number) => {
                    let set = config.set_number(&name, number);
                    set.map_err(|e| refused(py, &e))?;
                }
                Err(error) if number::is_out_of_range(py, &error) => {
                    return Err(out_of_range(&mut config, &name, &value));
                }
                Err(_) => return Err(number::no_number(&value, &name)),
            }
        }
        Ok(Self {
            config,
            state: Mutex::default(),
        })
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.config.policy().name()
    }

    #[getter]
    fn reads_time(&self) -> bool {
        self.config.policy().reads_time()
    }

    #[getter]
    fn sees_data(&self) -> bool {
        (self.config.policy().needs()).contains(Capabilities::SEE_DATA)
    }

    #[getter]
    fn params(&self) -> Vec<(&'static str, u32)> {
        let params = self.config.policy().params().iter();
        let value = |name| self.config.get(name).unwrap_or_default();
        params.map(|it| (it.name, value(it.name))).collect()
    }

    /// The policy as configurations and programs write it.
    fn __str__(&self) -> String {
        self.config.to_string()
    }

    /// The next event: `numbers` are what [`NUMBERS`] names.
    fn step(
        &self,
        kind: &str,
        now_us: &Bound<'_, PyAny>,
        flags: Vec<String>,
        numbers: [Bound<'_, PyAny>; NUMBERS.len()],
    ) -> PyResult<PyVerdict> {
        let kind = match kind {
            "data" => EventKind::Data,
            "ack" => EventKind::Ack,
            "deadline" => EventKind::Deadline,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "there is no event '{kind}'; there are data, ack and deadline"
                )));
            }
        };
        let mut all = EventFlags::empty();
        for name in &flags {
            all |= flag(name)?;
        }
        let mut facts = [0; NUMBERS.len()];
        for (fact, (name, value)) in facts.iter_mut().zip(NUMBERS.iter().zip(&numbers)) {
            *fact = number::whole(value, name, u32::MAX)?;
        }
        let [
            bytes,
            segments,
            len,
            hops,
            peer_wnd,
            mss,
            rcv_wnd,
            srtt_us,
            min_rtt_us,
            hold_us,
        ] = facts;
        let event = Event {
            now_us: number::whole(now_us, "now_us", u64::MAX)?,
            kind,
            flags: all,
            bytes,
            segments,
            len,
            hops,
            peer_wnd,
            mss,
            rcv_wnd,
            srtt_us,
            min_rtt_us,
            hold_us,
        };
        Ok(to_python(lock(&self.state).step(&self.config, &event)))
    }

    /// Forgets the flow.
    fn reset(&self) {
        *lock(&self.state) = PolicyState::default();
    }

    /// The state of the flow, 64 bytes.
    #[getter]
    fn state(&self) -> Vec<u8> {
        lock(&self.state).bytes().to_vec()
    }

    /// Takes the state of a policy of the same name and version.
    fn restore(&self, state: Vec<u8>) -> PyResult<()> {
        *lock(&self.state) = PolicyState::from_bytes(sized(state)?);
        Ok(())
    }
}

/// State of one direction of a connection.
#[derive(Default)]
struct Kept {
    handshake: Option<Handshake>,
    flow: Option<ackwise_policy::Flow>,
}

impl Kept {
    fn handshake(&mut self, segment: &Segment, acks: bool, now_us: u64) {
        let flags = segment.flags();
        let syn = flags.contains(TcpFlags::SYN);
        if syn && !flags.contains(TcpFlags::ACK) {
            self.flow = None;
        }
        if syn {
            self.handshake.get_or_insert_default();
        }
        if let Some(handshake) = &mut self.handshake {
            handshake.on_segment(segment, acks, now_us);
        }
    }
}

/// A flow under the contract.
#[pyclass(frozen, module = "ackwise._native")]
pub struct Flow {
    config: FlowConfig,
    link: LinkKind,
    kept: Mutex<Kept>,
}

/// The bytes of [`Kept`]: of the handshake and of the flow.
type FlowState = (Option<Vec<u8>>, Option<Vec<u8>>);

/// What to do, and why: kind, hold_us, reason, supersedes, twice.
type Decided = (&'static str, Option<u32>, &'static str, bool, bool);

impl Flow {
    fn segment(&self, packet: &[u8]) -> PyResult<Segment> {
        parse(packet, self.link).map_err(|e| PyValueError::new_err(format!("the packet: {e}")))
    }
}

#[pymethods]
impl Flow {
    #[new]
    fn new(
        policy: &Policy,
        ethernet: bool,
        hold_us: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let mut config = FlowConfig::new(policy.config());
        if let Some((least, most)) = hold_us {
            let least = number::whole(&least, "the minimum of hold_us", u32::MAX)?;
            let most = number::whole(&most, "the maximum of hold_us", u32::MAX)?;
            if least > most || most == 0 {
                return Err(PyValueError::new_err(format!(
                    "hold_us=({least}, {most}): the maximum hold must be 1 µs or more, and the \
                     minimum must not be above it"
                )));
            }
            config = config.with_hold(least, most, sys::AW_HOLD_RTT_SHIFT);
        }
        Ok(Self {
            config,
            link: match ethernet {
                true => LinkKind::Ethernet,
                false => LinkKind::Ip,
            },
            kept: Mutex::default(),
        })
    }

    /// What it knows, for a flow with the same policy and in the same version.
    #[getter]
    fn state(&self) -> FlowState {
        let kept = lock(&self.kept);
        let handshake = kept.handshake.as_ref().map(|it| it.bytes().to_vec());
        (handshake, kept.flow.as_ref().map(|it| it.bytes().to_vec()))
    }

    /// Takes what another flow knew.
    fn restore(&self, state: FlowState) -> PyResult<()> {
        let (handshake, flow) = state;
        let handshake = handshake.map(sized).transpose()?;
        let flow = flow.map(sized).transpose()?;
        *lock(&self.kept) = Kept {
            handshake: handshake.map(Handshake::from_bytes),
            flow: flow.map(ackwise_policy::Flow::from_bytes),
        };
        Ok(())
    }

    /// A packet from the data sender.
    fn data(&self, packet: &[u8], now_us: &Bound<'_, PyAny>) -> PyResult<()> {
        let now_us = number::whole(now_us, "now_us", u64::MAX)?;
        let segment = self.segment(packet)?;
        let mut kept = lock(&self.kept);
        match &mut kept.flow {
            Some(flow) if !segment.flags().contains(TcpFlags::SYN) => {
                flow.on_data(&self.config, &segment, 1, now_us);
            }
            _ => kept.handshake(&segment, false, now_us),
        }
        Ok(())
    }

    /// A packet to the data sender, and what to do with it; `None` for a packet that the contract
    /// does not judge.
    fn ack(&self, packet: &[u8], now_us: &Bound<'_, PyAny>) -> PyResult<Option<Decided>> {
        let now_us = number::whole(now_us, "now_us", u64::MAX)?;
        let segment = self.segment(packet)?;
        let mut kept = lock(&self.kept);
        if segment.flags().contains(TcpFlags::SYN) {
            kept.handshake(&segment, true, now_us);
            return Ok(None);
        }
        if kept.flow.is_none() {
            if segment.payload() > 0 || segment.flags() != TcpFlags::ACK {
                kept.handshake(&segment, true, now_us);
                return Ok(None);
            }
            kept.flow = Some(ackwise_policy::Flow::new(kept.handshake.as_ref(), now_us));
        }
        let Some(flow) = &mut kept.flow else {
            return Ok(None);
        };
        let Decision {
            verdict,
            reason,
            supersedes,
            twice,
        } = flow.on_ack(&self.config, &segment, now_us);
        let (kind, hold_us) = to_python(verdict);
        Ok(Some((kind, hold_us, reason.name(), supersedes, twice)))
    }

    /// Whether the held ACK has to leave, as it is, before this packet.
    fn releases(&self, packet: &[u8]) -> PyResult<bool> {
        let segment = self.segment(packet)?;
        let kept = lock(&self.kept);
        Ok(kept.flow.as_ref().is_some_and(|it| it.releases(&segment)))
    }

    /// The held ACK has left.
    fn sent(&self, packet: &[u8], now_us: &Bound<'_, PyAny>) -> PyResult<()> {
        let now_us = number::whole(now_us, "now_us", u64::MAX)?;
        let segment = self.segment(packet)?;
        if let Some(flow) = &mut lock(&self.kept).flow {
            flow.on_sent(&self.config, &segment, now_us);
        }
        Ok(())
    }

    /// D: the longest hold that the contract grants now, if the flow is known.
    #[getter]
    fn hold_us(&self) -> Option<u32> {
        let kept = lock(&self.kept);
        Some(kept.flow.as_ref()?.hold_us(&self.config))
    }

    /// The smoothed round-trip time, if it is known.
    #[getter]
    fn srtt_us(&self) -> Option<u32> {
        lock(&self.kept).flow.as_ref()?.srtt_us()
    }
}
