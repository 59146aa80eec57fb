//! The events that a policy sees, its verdicts, and the step between them.

use std::fmt;

use bitflags::bitflags;

use crate::{Config, sys};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A data segment was seen.
    Data,
    /// An ACK that may be withheld was seen.
    Ack,
    /// A held ACK has left because its deadline came.
    Deadline,
}

bitflags! {
    /// Details of an event.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct EventFlags: u32 {
        /// Data: leaves a hole below it.
        const OUT_OF_ORDER = sys::AW_D_OUT_OF_ORDER;
        /// Data: arrives below the highest byte seen.
        const FILLS_GAP = sys::AW_D_FILLS_GAP;
        /// Data: carries an ECN congestion mark.
        const CE = sys::AW_D_CE;
        /// Data: PSH is set.
        const PSH = sys::AW_D_PSH;
        /// Data: the sender received a CE-marked ACK.
        const ACK_CE_ECHO = sys::AW_D_ACK_CE_ECHO;
        /// ACK: the contract sends it whatever the verdict is.
        const MUST_SEND = sys::AW_A_MUST_SEND;
        /// ACK: loss or reordering is not yet repaired.
        const RECOVERY = sys::AW_A_RECOVERY;
        /// ACK: an older ACK of the flow is being held.
        const HOLDING = sys::AW_A_HOLDING;
        /// ACK: other traffic fills the link that it leaves by.
        const OTHERS = sys::AW_A_OTHERS;
        /// ACK: it waits in a queue that other traffic fills.
        const SHARED = sys::AW_A_SHARED;
        /// ACK: the CPU that sends it is short of time.
        const BUSY = sys::AW_A_BUSY;
    }
}

/// An event of a flow. A fact that is 0 is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time of the event, on a clock that never goes back.
    pub now_us: u64,
    /// What happened.
    pub kind: EventKind,
    /// Details.
    pub flags: EventFlags,
    /// Data: payload bytes. ACK: bytes newly covered since the last ACK that left.
    pub bytes: u32,
    /// Data: number of segments, which may be aggregated. ACK: segments newly covered since the
    /// last ACK that left.
    pub segments: u32,
    /// ACK: its size, from the IP header on.
    pub len: u32,
    /// Data: number of hops that it took.
    pub hops: u32,
    /// Data: the window that its sender advertises, in bytes.
    pub peer_wnd: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// The receiver's advertised window, in bytes.
    pub rcv_wnd: u32,
    /// The smoothed round-trip time.
    pub srtt_us: u32,
    /// The recent minimum round-trip time.
    pub min_rtt_us: u32,
    /// The longest hold that the contract allows now.
    pub hold_us: u32,
}

impl Event {
    fn new(now_us: u64, kind: EventKind) -> Event {
        Event {
            now_us,
            kind,
            flags: EventFlags::empty(),
            bytes: 0,
            segments: 0,
            len: 0,
            hops: 0,
            peer_wnd: 0,
            mss: 0,
            rcv_wnd: 0,
            srtt_us: 0,
            min_rtt_us: 0,
            hold_us: 0,
        }
    }

    /// A data segment, with everything else unknown.
    pub fn data(now_us: u64) -> Event {
        Event::new(now_us, EventKind::Data)
    }

    /// An ACK that may be withheld, with everything else unknown.
    pub fn ack(now_us: u64) -> Event {
        Event::new(now_us, EventKind::Ack)
    }

    /// A held ACK left because its deadline came.
    pub fn deadline(now_us: u64) -> Event {
        Event::new(now_us, EventKind::Deadline)
    }

    pub(crate) fn from_raw(raw: &sys::aw_event) -> Event {
        Event {
            now_us: raw.now_us,
            kind: match raw.kind {
                sys::AW_EV_DATA => EventKind::Data,
                sys::AW_EV_ACK => EventKind::Ack,
                _ => EventKind::Deadline,
            },
            flags: EventFlags::from_bits_retain(raw.flags),
            bytes: raw.bytes,
            segments: raw.segments,
            len: raw.len,
            hops: raw.hops,
            peer_wnd: raw.peer_wnd,
            mss: raw.mss,
            rcv_wnd: raw.rcv_wnd,
            srtt_us: raw.srtt_us,
            min_rtt_us: raw.min_rtt_us,
            hold_us: raw.hold_us,
        }
    }

    /// The event as a C structure.
    pub fn raw(&self) -> sys::aw_event {
        sys::aw_event {
            now_us: self.now_us,
            kind: match self.kind {
                EventKind::Data => sys::AW_EV_DATA,
                EventKind::Ack => sys::AW_EV_ACK,
                EventKind::Deadline => sys::AW_EV_DEADLINE,
            },
            flags: self.flags.bits(),
            bytes: self.bytes,
            segments: self.segments,
            len: self.len,
            hops: self.hops,
            peer_wnd: self.peer_wnd,
            mss: self.mss,
            rcv_wnd: self.rcv_wnd,
            srtt_us: self.srtt_us,
            min_rtt_us: self.min_rtt_us,
            hold_us: self.hold_us,
        }
    }
}

/// What to do with an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Send it.
    Send,
    /// Hold it for at most this long; a newer ACK may replace it.
    Hold {
        /// The bound; 0 from a policy means the event's bound.
        us: u32,
    },
    /// Drop it: a newer ACK is known to follow.
    Drop,
}

impl Verdict {
    /// Converts the verdict of the C code. An unknown kind sends.
    pub fn from_raw(kind: u32, hold_us: u32) -> Verdict {
        match kind {
            sys::AW_HOLD => Verdict::Hold { us: hold_us },
            sys::AW_DROP => Verdict::Drop,
            _ => Verdict::Send,
        }
    }

    pub(crate) fn raw(self) -> sys::aw_verdict {
        let (kind, hold_us) = match self {
            Verdict::Send => (sys::AW_SEND, 0),
            Verdict::Hold { us } => (sys::AW_HOLD, us),
            Verdict::Drop => (sys::AW_DROP, 0),
        };
        sys::aw_verdict { kind, hold_us }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Send => f.write_str("send"),
            Verdict::Hold { us } => write!(f, "hold {us}"),
            Verdict::Drop => f.write_str("drop"),
        }
    }
}

/// What a flow keeps for its policy: 64 bytes, initially zero.
#[derive(Clone, Copy)]
pub struct PolicyState(sys::aw_policy_state);

impl PolicyState {
    /// Passes the next event to the policy, and returns its verdict.
    pub fn step(&mut self, config: &Config, event: &Event) -> Verdict {
        let event = event.raw();
        let mut verdict = sys::aw_verdict::default();
        // SAFETY: every pointer is to a live value of the type that C expects, and the step reads
        // and writes nothing else.
        unsafe { sys::aw_shim_step(&mut self.0, config.raw(), &event, &mut verdict) };
        Verdict::from_raw(verdict.kind, verdict.hold_us)
    }

    /// The state's bytes, for comparing environments with one another.
    pub fn bytes(&self) -> [u8; sys::AW_POLICY_STATE as usize] {
        // SAFETY: the union holds plain integers; `raw` spans all of it.
        let raw = unsafe { self.0.raw };
        let mut bytes = [0; sys::AW_POLICY_STATE as usize];
        for (to, word) in bytes.chunks_exact_mut(8).zip(raw) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The state that had these bytes, in the same version.
    pub fn from_bytes(bytes: [u8; sys::AW_POLICY_STATE as usize]) -> PolicyState {
        let mut raw = [0; sys::AW_POLICY_STATE as usize / 8];
        for (word, from) in raw.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*from);
        }
        PolicyState(sys::aw_policy_state { raw })
    }
}

impl Default for PolicyState {
    fn default() -> PolicyState {
        PolicyState(sys::aw_policy_state {
            raw: [0; sys::AW_POLICY_STATE as usize / 8],
        })
    }
}

impl fmt::Debug for PolicyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyState({:02x?})", self.bytes())
    }
}
