//! The notes of a report.

use super::super::Clock;
use super::{Emulated, Measured};
use crate::topology::{LinkBackend, needs_shaping};

pub(super) fn link_emulator(measured: &Measured<'_>) -> Option<String> {
    if !measured.scenario.links.iter().any(needs_shaping) {
        return Some("none: plain veth".to_owned());
    }
    Some(match measured.backend {
        LinkBackend::Netem => "netem and queue disciplines of the kernel".to_owned(),
        LinkBackend::Auto | LinkBackend::Emulator => "ackwise-queue on TAP devices".to_owned(),
    })
}

pub(super) fn notes(measured: &Measured<'_>) -> Vec<String> {
    let mut notes = vec![if measured.clock == Clock::Virtual {
        "Time is virtual: computation takes no time, so no CPU times are given, and nothing \
         depends on the host."
            .to_owned()
    } else {
        "CPU of a node: `cpu_process_s` is the user and system time of its traffic threads or \
         iperf3, without the time to produce and hash the contents; it includes the send path \
         through the stack and the datapath. `cpu_stack_s` is the time that the emulator's thread \
         spends writing frames to the node's TAP device: it includes the stack's receive path, \
         forwarding and sending of ACKs, the device itself, and what is passed on to neighbours \
         over veth. Where all links are plain veth, it is the softirq time of the whole machine \
         instead, for all nodes together and in clock ticks, with everything else that the machine \
         did."
            .to_owned()
    }];
    let emulated: Vec<&Emulated> = measured
        .wired
        .iter()
        .filter_map(|wired| wired.emulated.as_ref())
        .collect();
    if let Some(Err(reason)) = emulated
        .iter()
        .map(|one| &one.realtime)
        .find(|r| r.is_err())
    {
        notes.push(format!(
            "The link emulator could not get real-time priority ({reason}), so it may \
             deliver later than necessary."
        ));
    }
    let offloads = measured
        .scenario
        .links
        .iter()
        .any(|link| needs_shaping(link) && link.offload);
    let kernel = measured
        .wired
        .iter()
        .any(|wired| wired.directions.is_some());
    if offloads && (kernel || !emulated.is_empty()) {
        notes.push(
            "Emulated links have no offloads: every packet crosses by itself, as on a wire."
                .to_owned(),
        );
    }
    if kernel {
        notes.push("The longest and the mean queue are from samples every 10 ms.".to_owned());
    }
    if let Some((place, stats)) = measured
        .statistics
        .iter()
        .find(|(_, s)| s.attach_fallback.is_some())
    {
        notes.push(format!(
            "The datapath on {place}: {}",
            stats.attach_fallback.clone().unwrap_or_default()
        ));
    }
    notes
}
