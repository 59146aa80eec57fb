//! The MAC of a world's nodes: when a frame leaves, and how an arriving one is
//! handled.

use ackwise_queue::Nanos;

use super::{Event, ReceivedPacket, Sending, World};
use crate::energy::Power;
use crate::frame::{Body, Datagram, Frame, NodeId};
#[cfg(test)]
use crate::mac::SaturatedSource;
use crate::mac::{Exchange, Phase, Queued};
use crate::timing::{TURNAROUND, UNIT_BACKOFF_PERIOD, air, pause};

impl World {
    /// Queues a packet for a neighbour, or for all.
    pub(super) fn enqueue(&mut self, node: NodeId, to: Option<NodeId>, datagram: Datagram) {
        let room = self.model.mac.queue as usize;
        let n = &mut self.nodes[node];
        if n.mac.waiting.len() > room {
            n.counts.overflows += 1;
            return;
        }
        n.mac.waiting.push_back(Queued { to, datagram });
        if n.mac.phase == Phase::Idle {
            self.next_frame(node);
        }
    }

    pub(super) fn enter(&mut self, node: NodeId, phase: Phase, for_: Nanos) {
        let mac = &mut self.nodes[node].mac;
        mac.phase = phase;
        mac.token = mac.token.wrapping_add(1);
        let token = mac.token;
        self.after(for_, Event::Mac(node, token));
    }

    fn next_frame(&mut self, node: NodeId) {
        self.refill(node);
        self.numbers += 1;
        let mac = &mut self.nodes[node].mac;
        mac.phase = Phase::Idle;
        if mac.waiting.is_empty() {
            return;
        }
        mac.number = self.numbers;
        mac.tries = 0;
        self.contend(node);
    }

    fn refill(&mut self, node: NodeId) {
        if !self.nodes[node].mac.waiting.is_empty() {
            return;
        }
        for source in self.sources.iter().filter(|source| source.from == node) {
            let datagram = Datagram {
                from: node,
                to: source.to,
                ttl: 1,
                bytes: source.bytes,
                body: Body::Filler,
            };
            let to = source.to;
            let waiting = &mut self.nodes[node].mac.waiting;
            waiting.push_back(Queued { to, datagram });
        }
    }

    /// Starts sources that always have a frame to send.
    #[cfg(test)]
    pub(crate) fn saturate(&mut self, sources: &[SaturatedSource]) {
        self.sources = sources.to_vec();
        for source in sources {
            self.next_frame(source.from);
        }
    }

    fn contend(&mut self, node: NodeId) {
        let least = self.model.mac.min_be;
        let mac = &mut self.nodes[node].mac;
        mac.busy_ccas = 0;
        mac.exponent = least;
        self.back_off(node);
    }

    fn back_off(&mut self, node: NodeId) {
        let first = u64::from(self.model.mac.first_slot);
        let most = 1 << self.nodes[node].mac.exponent;
        let slots = first + self.backoffs.below(most - first);
        let wait = self.until_cca(node, slots * UNIT_BACKOFF_PERIOD);
        self.enter(node, Phase::Backoff, wait);
    }

    pub(super) fn mac_timer(&mut self, node: NodeId, token: u32) {
        if self.nodes[node].mac.token != token {
            return;
        }
        match self.nodes[node].mac.phase {
            Phase::Idle | Phase::Sending => {}
            Phase::Backoff => {
                self.nodes[node].counts.ccas += 1;
                self.wake(node);
                self.enter(node, Phase::Cca(self.now), self.cca_time);
            }
            // The channel is assessed once the radio is set up.
            Phase::Cca(since) if self.air.is_clear(node, since + self.model.mac.look_setup) => {
                self.disable_rx(node);
                self.enter(node, Phase::Turnaround, self.turnaround);
            }
            Phase::Cca(_) => self.channel_busy(node),
            Phase::Turnaround => self.send_first(node),
            Phase::AckWait => self.not_acknowledged(node),
            Phase::Pause => self.next_frame(node),
        }
        self.sleep_if_idle(node);
    }

    fn channel_busy(&mut self, node: NodeId) {
        self.nodes[node].counts.busy += 1;
        let (most, max_be) = (self.model.mac.max_backoffs, self.model.mac.max_be);
        let mac = &mut self.nodes[node].mac;
        mac.busy_ccas += 1;
        mac.exponent = (mac.exponent + 1).min(max_be);
        if mac.busy_ccas <= most {
            return self.back_off(node);
        }
        self.nodes[node].counts.no_channel += 1;
        self.first_done(node, false);
    }

    /// No acknowledgment came in time; a node that sends copies may have another copy to send.
    fn not_acknowledged(&mut self, node: NodeId) {
        if self.air.receives(node) && self.model.sleep.is_some() {
            // The frame being received may be the acknowledgment.
            return self.enter(node, Phase::AckWait, TURNAROUND);
        }
        if self.continue_train(node) {
            self.disable_rx(node);
            return self.send_first(node);
        }
        let n = &mut self.nodes[node];
        if n.mac
            .waiting
            .front()
            .is_some_and(|first| first.to.is_none())
        {
            n.mac.waiting.pop_front();
            return self.enter(node, Phase::Pause, 0);
        }
        self.try_again(node);
    }

    fn try_again(&mut self, node: NodeId) {
        let most = self.model.mac.max_retries;
        let n = &mut self.nodes[node];
        n.mac.tries += 1;
        if n.mac.tries <= most {
            n.counts.retries += 1;
            return self.contend(node);
        }
        n.counts.no_ack += 1;
        self.first_done(node, true);
    }

    /// Gives up the first frame; its neighbour may be gone.
    fn first_done(&mut self, node: NodeId, gone: bool) {
        let Some(Queued { to, datagram }) = self.nodes[node].mac.waiting.pop_front() else {
            return;
        };
        self.enter(node, Phase::Pause, 0);
        if let Some(to) = to {
            self.link_failed(node, to, datagram, gone);
        }
    }

    /// Stops listening: a frame that the node was receiving is lost.
    fn disable_rx(&mut self, node: NodeId) {
        if self.air.receives(node) {
            self.nodes[node].meter.enter(Power::Idle, self.now);
        }
        self.air.disable_rx(node);
    }

    fn send_first(&mut self, node: NodeId) {
        self.begin_train(node);
        let bytes = self.frame_bytes(node);
        let mac = &mut self.nodes[node].mac;
        let Some(Queued { to, datagram }) = mac.waiting.front() else {
            return;
        };
        let frame = Frame::Data {
            number: mac.number,
            to: *to,
            bytes,
            load: datagram.clone(),
        };
        mac.phase = Phase::Sending;
        self.nodes[node].counts.frames += 1;
        self.transmit(node, frame);
    }

    fn transmit(&mut self, node: NodeId, frame: Frame) {
        let (now, takes) = (self.now, air(frame.bytes()));
        self.nodes[node].meter.enter(Power::Transmit, now);
        let nodes = &mut self.nodes;
        let number = self.air.begin(node, |receiver| {
            nodes[receiver].meter.enter(Power::Receive, now)
        });
        nodes[node].sending = Some(Sending { number, frame });
        self.after(takes, Event::End(node));
    }

    pub(super) fn frame_ends(&mut self, node: NodeId) {
        let now = self.now;
        let Some(Sending { number, frame }) = self.nodes[node].sending.take() else {
            return;
        };
        self.nodes[node].meter.enter(Power::Idle, now);
        let mut heard = Vec::new();
        self.air
            .end(node, number, now, |reception| heard.push(reception));
        self.air.listen(node, now);
        match &frame {
            Frame::Data { to: Some(_), .. } => self.enter(node, Phase::AckWait, self.ack_wait),
            Frame::Data { .. } if self.continue_train(node) => {
                self.enter(node, Phase::AckWait, self.ack_wait);
            }
            Frame::Data { bytes, .. } => {
                self.nodes[node].mac.waiting.pop_front();
                self.pause_after_frame(node, *bytes);
            }
            Frame::Ack { .. } => {
                if let Some(ReceivedPacket { from, load }) = self.nodes[node].received.take() {
                    self.forward(node, from, load);
                }
            }
        }
        for reception in heard {
            self.nodes[reception.node].meter.enter(Power::Idle, now);
            if reception.whole && !self.garbled(frame.bytes()) {
                self.stop_listening(reception.node);
                self.receive(reception.node, node, &frame);
            }
            self.sleep_if_idle(reception.node);
        }
        self.sleep_if_idle(node);
    }

    fn receive(&mut self, node: NodeId, from: NodeId, frame: &Frame) {
        match frame {
            Frame::Ack { number, to } => {
                let mac = &self.nodes[node].mac;
                if *to == node && mac.phase == Phase::AckWait && mac.number == *number {
                    self.acknowledged(node);
                }
            }
            // A node that sends copies listens only for acknowledgments.
            Frame::Data { .. } if self.is_in_train(node) => {}
            Frame::Data {
                number,
                to: None,
                load,
                ..
            } => {
                let number = *number;
                let exchange = Exchange { from, number };
                let copies = self.model.sleep.is_some();
                if !copies || !self.nodes[node].mac.repeats(exchange) {
                    self.forward(node, from, load.clone());
                }
            }
            Frame::Data {
                number,
                to: Some(to),
                load,
                ..
            } if *to == node => {
                self.disable_rx(node);
                let number = *number;
                let exchange = Exchange { from, number };
                self.nodes[node].pending_ack = Some(exchange);
                self.after(TURNAROUND, Event::SendAck(node));
                let repeats = self.nodes[node].mac.repeats(exchange);
                self.nodes[node].received = (!repeats).then(|| ReceivedPacket {
                    from,
                    load: load.clone(),
                });
            }
            Frame::Data { .. } => {}
        }
    }

    /// Pauses after a frame of this many bytes.
    fn pause_after_frame(&mut self, node: NodeId, bytes: u32) {
        let pause = if self.model.mac.pauses {
            pause(bytes)
        } else {
            0
        };
        self.enter(node, Phase::Pause, pause);
    }

    fn acknowledged(&mut self, node: NodeId) {
        let bytes = self.frame_bytes(node);
        let Some(Queued { to, .. }) = self.nodes[node].mac.waiting.pop_front() else {
            return;
        };
        self.lock_on(node, to);
        self.pause_after_frame(node, bytes);
    }

    pub(super) fn send_ack(&mut self, node: NodeId) {
        if let Some(Exchange { from, number }) = self.nodes[node].pending_ack.take() {
            self.nodes[node].counts.acks += 1;
            self.transmit(node, Frame::Ack { number, to: from });
        }
    }
}
