//! TCP endpoints of `tcp/`, as ends of the engine.

use std::sync::Arc;

use ackwise_queue::Nanos;

use crate::endpoint::{End, RttSamples, Sink, Source, SourceView, Supply};
use crate::packet::{FlowId, Packet};
use crate::tcp::{Receiver, ReceiverConfig, Sender, SenderConfig};

/// A slow-start threshold from here on means that none is set.
const INFINITE: u64 = 1 << 60;

impl End for Sender {
    #[inline]
    fn on_packet(&mut self, packet: &Packet, now: Nanos) {
        Sender::on_packet(self, packet, now);
    }
    fn on_timer(&mut self, now: Nanos) {
        Sender::on_timer(self, now);
    }
    #[inline]
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        Sender::poll_transmit(self, now)
    }
    #[inline]
    fn transmit_into(&mut self, place: &mut Packet, now: Nanos) -> bool {
        Sender::transmit_into(self, place, now)
    }
    #[inline]
    fn next_timer(&self) -> Option<Nanos> {
        Sender::next_timer(self)
    }
}

impl Source for Sender {
    type Config = Arc<SenderConfig>;

    fn open(config: &Self::Config, flow: FlowId) -> Self {
        Sender::new(flow, Arc::clone(config))
    }

    fn supply(&mut self, supply: Supply, now: Nanos) {
        match supply {
            Supply::Endless => Sender::supply(self, u64::MAX),
            Supply::Bytes(bytes) => Sender::supply(self, bytes),
            Supply::Last(bytes) => {
                Sender::supply(self, bytes);
                self.close();
            }
        }
        Sender::open(self, now);
    }

    #[inline]
    fn rtt(&self) -> RttSamples {
        let stats = self.stats();
        RttSamples {
            count: stats.rtt_samples,
            last: stats.rtt_last_ns,
        }
    }

    fn view(&self) -> SourceView {
        let stats = self.stats();
        SourceView {
            srtt: self.srtt(),
            cwnd: self.cwnd(),
            ssthresh: Some(self.ssthresh()).filter(|&bytes| bytes < INFINITE),
            in_flight: Some(self.outstanding()),
            mss: self.config().mss,
            retransmits: stats.retransmits,
            timeouts: Some(stats.timeouts),
            sent: self.acknowledged() + self.outstanding(),
            finished: self.is_done(),
        }
    }
}

impl End for Receiver {
    #[inline]
    fn on_packet(&mut self, packet: &Packet, now: Nanos) {
        Receiver::on_packet(self, packet, now);
    }
    fn on_timer(&mut self, now: Nanos) {
        Receiver::on_timer(self, now);
    }
    #[inline]
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        Receiver::poll_transmit(self, now)
    }
    #[inline]
    fn transmit_into(&mut self, place: &mut Packet, now: Nanos) -> bool {
        Receiver::transmit_into(self, place, now)
    }
    #[inline]
    fn next_timer(&self) -> Option<Nanos> {
        Receiver::next_timer(self)
    }
}

impl Sink for Receiver {
    type Config = Arc<ReceiverConfig>;

    fn open(config: &Self::Config, flow: FlowId) -> Self {
        Receiver::new(flow, Arc::clone(config))
    }

    #[inline]
    fn delivered(&self) -> u64 {
        Receiver::delivered(self)
    }
    fn piggyback(&mut self, now: Nanos) -> Option<Packet> {
        Receiver::piggyback(self, now)
    }
}
