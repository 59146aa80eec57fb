//! Resolves the options of a flow to the configuration of its two ends.

use std::time::Duration;

use ackwise_config::queues::QueueLimit;
use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{
    AckTimer, Estimator, Exit, Growth, Halve, HyStart, IdleRestart, Pacing, PartialAck, Recovery,
    Stack, TcpModel,
};
use ackwise_scenario::{IpVersion, SocketOptions};

use super::config::{ReceiverConfig, SenderConfig, UNLIMITED};
use super::congestion::{Variant, congestion_controls, variant};
use super::receive_window::LAST_LIMIT;
use super::rtt::RtoConfig;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// Why a flow cannot be modelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The congestion control is not one of the simulator's.
    #[error("the simulator has no congestion control '{0}'; it has {list}", list = congestion_controls().collect::<Vec<_>>().join(", "))]
    UnknownCongestionControl(String),
    /// The MTU leaves no room for data.
    #[error(
        "an mtu of {mtu} leaves no room for payload after {header} bytes of headers; raise the link's 'mtu'"
    )]
    MtuTooSmall {
        /// The smallest MTU of the path, in bytes.
        mtu: u32,
        /// Bytes of the IP and TCP headers.
        header: u32,
    },
    /// The segment is too large for the links.
    #[error(
        "'segment' = {segment} and {header} bytes of headers exceed the path's mtu of {mtu}; lower it"
    )]
    SegmentTooLarge {
        /// The requested segment, in bytes.
        segment: u32,
        /// Bytes of the IP and TCP headers.
        header: u32,
        /// The smallest MTU of the path, in bytes.
        mtu: u32,
    },
    /// The requested recovery needs SACK, which another key turns off.
    #[error(
        "recovery = \"{recovery}\" needs SACK, which 'socket' turns off; remove one of the two"
    )]
    NeedsSack {
        /// The requested recovery.
        recovery: &'static str,
    },
    /// The requested option works without SACK only.
    #[error("{0} does not use SACK, which 'socket' turns on; remove one of the two")]
    WithoutSack(String),
    /// The congestion control works with SACK only.
    #[error(
        "cc = \"{0}\" needs SACK, which 'socket' or 'recovery' turns off; remove one of the two"
    )]
    ControlNeedsSack(&'static str),
}

/// Resolves a flow's options for a path.
///
/// # Errors
///
/// Says which option is unknown, or does not go with another.
pub fn configure(
    cc: &str,
    model: &TcpModel,
    socket: &SocketOptions,
    mtu: u32,
) -> Result<(SenderConfig, ReceiverConfig), ConfigError> {
    let Some(variant) = variant(cc) else {
        return Err(ConfigError::UnknownCongestionControl(cc.to_owned()));
    };
    // A control that Linux does not have is modelled after its RFC.
    let stack = model.stack.unwrap_or(variant.stack);
    let recovery = recovery(variant, stack, model, socket)?;
    let timestamps = socket.timestamps.unwrap_or(stack != Stack::Ns2);
    // The option is padded to words on the wire; ns-2 counts its ten bytes.
    let options = match (timestamps, stack) {
        (false, _) => 0,
        (true, Stack::Ns2) => 10,
        (true, _) => 12,
    };
    let ip = match socket.ip {
        IpVersion::V4 => 20,
        IpVersion::V6 => 40,
    };
    let header = model.header.unwrap_or(ip + 20) + options;
    let d = Defaults {
        model,
        socket,
        stack,
        recovery,
        variant,
        timestamps,
        header,
        options,
        mss: mss(model, mtu, header)?,
    };
    Ok((d.sender(), d.receiver()))
}

/// The inputs of the defaults.
struct Defaults<'a> {
    model: &'a TcpModel,
    socket: &'a SocketOptions,
    stack: Stack,
    recovery: Recovery,
    variant: &'static Variant,
    timestamps: bool,
    header: u32,
    /// Bytes of the header taken by the timestamps option.
    options: u32,
    mss: u32,
}

impl Defaults<'_> {
    fn of<T>(&self, linux: T, rfc: T, ns2: T) -> T {
        match self.stack {
            Stack::Linux => linux,
            Stack::Rfc => rfc,
            Stack::Ns2 => ns2,
        }
    }

    fn bytes(&self, limit: QueueLimit) -> u64 {
        let mss = u64::from(self.mss);
        match limit {
            QueueLimit::Packets(n) => u64::from(n).max(1) * mss,
            QueueLimit::Bytes(n) => n.max(mss),
        }
    }

    fn segments(&self, n: u32) -> u64 {
        u64::from(n) * u64::from(self.mss)
    }

    fn sender(&self) -> SenderConfig {
        let m = self.model;
        let window_limit = match m.window_limit {
            Some(limit) => self.bytes(limit),
            None => self.of(UNLIMITED, UNLIMITED, self.segments(20)),
        };
        SenderConfig {
            congestion_control: self.variant.name,
            seed: 0,
            mss: self.mss,
            header: self.header,
            timestamps: self.timestamps,
            ecn: self.socket.ecn.unwrap_or(false),
            ack_ecn: m.ack_ecn.unwrap_or(false),
            handshake: m.handshake.unwrap_or(true),
            fin_with_data: m.handshake.unwrap_or(true),
            growth: m
                .growth
                .unwrap_or(self.of(Growth::PerSegment, Growth::Abc, Growth::PerAck)),
            abc_limit: m.abc_limit.unwrap_or(1),
            initial_window: self.initial_window(),
            initial_ssthresh: match m.initial_ssthresh {
                Some(limit) => self.bytes(limit),
                None => self.of(UNLIMITED, UNLIMITED, window_limit),
            },
            lost_syns: m.lost_syns.unwrap_or(self.of(2, 1, 1)),
            lost_syn_halves: m.lost_syn_halves.unwrap_or(self.of(false, false, true)),
            window_limit,
            validate_window: m.validate_window.unwrap_or(self.of(true, true, false)),
            idle_restart: m.idle_restart.unwrap_or(self.of(
                IdleRestart::Decay,
                IdleRestart::Initial,
                IdleRestart::Off,
            )),
            halve: m
                .halve
                .unwrap_or(self.of(Halve::Window, Halve::Flight, Halve::Window)),
            hystart: m.hystart.unwrap_or(if self.variant.hystart {
                self.of(HyStart::Linux, HyStart::PlusPlus, HyStart::Off)
            } else {
                HyStart::Off
            }),
            fast_convergence: m.fast_convergence.unwrap_or(true),
            recovery: self.recovery,
            dupthresh: m.dupthresh.unwrap_or(3),
            idle_duplicates: m.idle_duplicates.unwrap_or(self.of(false, false, true)),
            limited_transmit: m.limited_transmit.unwrap_or(true),
            avoid_repeat: m.avoid_repeat.unwrap_or(true),
            partial_ack: m.partial_ack.unwrap_or(self.of(
                PartialAck::SlowButSteady,
                PartialAck::Impatient,
                PartialAck::Impatient,
            )),
            recovery_exit: m
                .recovery_exit
                .unwrap_or(match (self.stack, self.recovery) {
                    (Stack::Ns2, _) => Exit::Grow,
                    (Stack::Rfc, Recovery::NewReno) => Exit::Flight,
                    _ => Exit::Ssthresh,
                }),
            recovery_burst: m
                .recovery_burst
                .unwrap_or(match (self.stack, self.recovery) {
                    (Stack::Ns2, Recovery::NewReno) => 2,
                    _ => 0,
                }),
            prr: m.prr.unwrap_or(self.of(true, false, false)),
            tlp: m.tlp.unwrap_or(self.recovery == Recovery::Rack),
            undo: m.undo.unwrap_or(self.of(true, false, false)),
            rto: self.rto(),
            pacing: m.pacing.unwrap_or(self.pacing()),
            max_burst: m.max_burst.unwrap_or(0),
            push_bursts: m.push_bursts.unwrap_or(self.of(true, false, false)),
            defer_chunks: m.defer_chunks.unwrap_or(self.of(true, false, false)),
            cwnd_hint: m.cwnd_hint.unwrap_or(false),
            ask_ack: m.ask_ack.unwrap_or(false),
            ask_ack_once: m.ask_ack_once.unwrap_or(false),
            ack_rate: None,
            ack_congestion_control: None,
        }
    }

    fn initial_window(&self) -> u64 {
        if let Some(segments) = self.model.initial_window {
            return self.segments(segments);
        }
        let ten = self.segments(10);
        // RFC 6928 §2.
        let rfc = ten.min(self.segments(2).max(14_600));
        self.of(ten, rfc, self.segments(2))
    }

    /// ns-2's sinks send 40 bytes, with or without timestamps.
    fn ack_header(&self) -> u32 {
        match self.stack {
            Stack::Ns2 => self.header - self.options,
            _ => self.header,
        }
    }

    /// Without `pacing` of its own in the model.
    fn pacing(&self) -> Pacing {
        match self.socket.pacing {
            true => Pacing::Linux,
            false => Pacing::Off,
        }
    }

    fn rto(&self) -> RtoConfig {
        let m = self.model;
        let max = nanos(m.max_rto, self.of(120 * SECOND, 60 * SECOND, 60 * SECOND));
        RtoConfig {
            estimator: m.rtt_estimator.unwrap_or(self.of(
                Estimator::Linux,
                Estimator::Rfc,
                Estimator::Rfc,
            )),
            initial: nanos(m.initial_rto, self.of(SECOND, SECOND, 3 * SECOND)).min(max),
            factor: m.rto_factor.unwrap_or(1),
            min: nanos(m.min_rto, self.of(200 * MS, SECOND, 200 * MS)).min(max),
            max,
            tick: nanos(m.tick, self.of(1, MS, 10 * MS)).max(1),
            forget_after: m.forget_rtt_after.unwrap_or(self.of(0, 0, 4)),
        }
    }

    fn receiver(&self) -> ReceiverConfig {
        let m = self.model;
        // RFC 7323 §2: sixteen bits without window scaling.
        let unscaled = match self.socket.window_scaling {
            Some(false) => 65_535,
            _ => UNLIMITED,
        };
        let tune_window = m.tune_window.unwrap_or(self.of(true, false, false));
        let most = if tune_window { LAST_LIMIT } else { UNLIMITED };
        ReceiverConfig {
            mss: self.mss,
            header: m.ack_size.unwrap_or(self.ack_header()),
            sack_adds: m.ack_size.is_none() && self.stack != Stack::Ns2,
            sack: matches!(self.recovery, Recovery::Sack | Recovery::Rack),
            timestamps: self.timestamps,
            ecn: self.socket.ecn.unwrap_or(false),
            ack_ecn: m.ack_ecn.unwrap_or(false),
            window: self
                .socket
                .receive_buffer
                .unwrap_or(most)
                .min(unscaled)
                .max(u64::from(self.mss)),
            tune_window,
            auto_window: self.socket.receive_buffer.is_none(),
            ack_every: m.ack_every.unwrap_or(self.of(2, 2, 1)),
            ack_bytes: m.ack_bytes.unwrap_or(self.of(true, true, false)),
            ack_delay: nanos(m.ack_delay, self.of(40 * MS, 200 * MS, 100 * MS)),
            ack_timer: m.ack_timer.unwrap_or(self.of(
                AckTimer::Adaptive,
                AckTimer::FirstSegment,
                AckTimer::FirstSegment,
            )),
            quick_acks: m.quick_acks.unwrap_or(self.of(16, 0, 0)),
            ack_pushes: m.ack_pushes.unwrap_or(self.of(true, false, false)),
            compress_sack: m.compress_sack.unwrap_or(self.of(true, false, false)),
            dsack: m.dsack.unwrap_or(self.of(true, false, false)),
            knows_ack_rate: false,
            policy: None,
        }
    }
}

fn nanos(given: Option<Duration>, default: Nanos) -> Nanos {
    given.map_or(default, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

fn recovery(
    variant: &Variant,
    stack: Stack,
    model: &TcpModel,
    socket: &SocketOptions,
) -> Result<Recovery, ConfigError> {
    let off = socket.sack == Some(false);
    let name = |recovery| match recovery {
        Recovery::Sack => Some("sack"),
        Recovery::Rack => Some("rack"),
        _ => None,
    };
    let natural = match stack {
        Stack::Linux => variant.linux_recovery,
        _ => variant.recovery,
    };
    let recovery = match model.recovery {
        Some(asked) => match name(asked) {
            Some(recovery) if off => return Err(ConfigError::NeedsSack { recovery }),
            _ => asked,
        },
        // `cc = "sack"` is nothing but its loss recovery.
        None if off && variant.name == "sack" => {
            return Err(ConfigError::ControlNeedsSack(variant.name));
        }
        None if off && name(natural).is_some() => Recovery::NewReno,
        None => natural,
    };
    if variant.needs_sack && name(recovery).is_none() {
        return Err(ConfigError::ControlNeedsSack(variant.name));
    }
    if socket.sack == Some(true) && name(recovery).is_none() {
        let asked = match model.recovery {
            Some(_) => "this 'recovery'".to_owned(),
            None => format!("cc = \"{}\"", variant.name),
        };
        return Err(ConfigError::WithoutSack(asked));
    }
    Ok(recovery)
}

fn mss(model: &TcpModel, mtu: u32, header: u32) -> Result<u32, ConfigError> {
    let room = mtu.checked_sub(header).filter(|room| *room > 0);
    match (model.segment, room) {
        (Some(segment), Some(room)) if segment <= room => Ok(segment),
        (Some(segment), _) => Err(ConfigError::SegmentTooLarge {
            segment,
            header,
            mtu,
        }),
        (None, Some(room)) => Ok(room.min(65_535)),
        (None, None) => Err(ConfigError::MtuTooSmall { mtu, header }),
    }
}
