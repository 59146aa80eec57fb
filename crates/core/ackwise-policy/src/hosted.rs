//! A policy that is not in `policies.def`, under the same contract. It allows one to try a policy
//! before writing it in C.

use std::ffi::c_void;
use std::fmt;

use crate::flow::{Decision, Flow, FlowConfig, Handshake};
use crate::{Event, Segment, Verdict, sys};

/// A policy supplied by the caller, with its state for one flow.
pub trait HostedPolicy: Send {
    /// Whether the policy reads the time of an event, which is 0 otherwise. Some rules of the
    /// contract depend on it, too: without the time there is no current round-trip time.
    fn reads_time(&self) -> bool;

    /// Passes the next event to the policy, and returns its verdict. The verdict counts for ACKs
    /// that the contract allows the policy to withhold; others have
    /// [`MUST_SEND`](crate::EventFlags::MUST_SEND). It must not be [`Verdict::Drop`], which only
    /// the owner of a queue may return.
    ///
    /// A panic ends the process, because C code is between the policy and any caller that could
    /// catch it.
    fn step(&mut self, event: &Event) -> Verdict;
}

/// A [`Flow`] with a policy from `policies.def` or one supplied by the caller.
pub struct HostedFlow {
    flow: Flow,
    policy: Option<Box<dyn HostedPolicy>>,
}

/// The callback from C.
extern "C" fn step(host: *mut c_void, event: *const sys::aw_event, to: *mut sys::aw_verdict) {
    // SAFETY: `HostedFlow::host` made `host` from a live box that nothing else uses during the
    // call; C passes pointers to an event and a verdict on its stack.
    let (policy, event, to) = unsafe {
        let policy = &mut *host.cast::<Box<dyn HostedPolicy>>();
        (policy, &*event, &mut *to)
    };
    *to = policy.step(&Event::from_raw(event)).raw();
}

/// What C is given of the caller's policy.
type Host = (sys::aw_host_step, *mut c_void, i32);

impl HostedFlow {
    /// A flow; `handshake` is `None` if it was not seen. Without `policy`, the configuration's
    /// policy decides.
    pub fn new(
        handshake: Option<&Handshake>,
        now_us: u64,
        policy: Option<Box<dyn HostedPolicy>>,
    ) -> HostedFlow {
        HostedFlow {
            flow: Flow::new(handshake, now_us),
            policy,
        }
    }

    fn host(policy: &mut Box<dyn HostedPolicy>) -> Host {
        let reads_time = i32::from(policy.reads_time());
        (Some(step), std::ptr::from_mut(policy).cast(), reads_time)
    }

    /// See [`Flow::on_data`].
    pub fn on_data(&mut self, config: &FlowConfig, s: &Segment, segments: u32, now_us: u64) {
        let Some(policy) = &mut self.policy else {
            return self.flow.on_data(config, s, segments, now_us);
        };
        let (step, host, time) = HostedFlow::host(policy);
        let (flow, config) = (&mut self.flow.0, &config.0);
        // SAFETY: every pointer is to a live value of the type C expects, and `host` is what
        // `step` expects.
        unsafe {
            sys::aw_shim_hosted_on_data(flow, config, step, host, time, &s.0, segments, now_us);
        }
    }

    /// See [`Flow::on_ack`].
    pub fn on_ack(&mut self, config: &FlowConfig, s: &Segment, now_us: u64) -> Decision {
        let Some(policy) = &mut self.policy else {
            return self.flow.on_ack(config, s, now_us);
        };
        let mut d = sys::aw_decision::default();
        let (step, host, time) = HostedFlow::host(policy);
        let (flow, config) = (&mut self.flow.0, &config.0);
        // SAFETY: as in `on_data`.
        unsafe {
            sys::aw_shim_hosted_on_ack(flow, config, step, host, time, &s.0, now_us, &mut d);
        }
        Decision::from_raw(&d)
    }

    /// See [`Flow::on_sent`].
    pub fn on_sent(&mut self, config: &FlowConfig, s: &Segment, now_us: u64) {
        let Some(policy) = &mut self.policy else {
            return self.flow.on_sent(config, s, now_us);
        };
        let (step, host, time) = HostedFlow::host(policy);
        let (flow, config) = (&mut self.flow.0, &config.0);
        // SAFETY: as in `on_data`.
        unsafe { sys::aw_shim_hosted_on_sent(flow, config, step, host, time, &s.0, now_us) };
    }

    /// The flow itself.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// See [`Flow::releases`].
    pub fn releases(&self, s: &Segment) -> bool {
        self.flow.releases(s)
    }

    /// See [`Flow::srtt_us`].
    pub fn srtt_us(&self) -> Option<u32> {
        self.flow.srtt_us()
    }

    /// See [`Flow::set_shared`].
    pub fn set_shared(&mut self, shared: u32) {
        self.flow.set_shared(shared);
    }
}

impl fmt::Debug for HostedFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedFlow")
            .field("flow", &self.flow)
            .field("own_policy", &self.policy.is_some())
            .finish()
    }
}
