//! The ends of a scenario's flows, for TCP or QUIC.

use std::sync::Arc;

use ackwise_queue::Nanos;

use crate::endpoint::{End, RttSamples, Sink, Source, SourceView, Supply};
use crate::packet::{FlowId, Packet};
use crate::quic_endpoint::{QuicConfig, QuicReceiver, QuicSender};
use crate::tcp;

/// A TCP variant and a QUIC variant.
#[derive(Debug, Clone)]
pub enum Transport<T, Q> {
    /// The TCP variant.
    Tcp(T),
    /// The QUIC variant.
    Quic(Q),
}

/// An end that sends data. A TCP sender is stored inline: most senders are TCP, and an
/// indirection for each would cost more than the space.
pub type Sender = Transport<tcp::Sender, Box<QuicSender>>;
/// An end that receives and acknowledges.
pub type Receiver = Transport<tcp::Receiver, Box<QuicReceiver>>;
/// Configuration of a [`Sender`].
pub type SenderConfig = Transport<Arc<tcp::SenderConfig>, Arc<QuicConfig>>;
/// Configuration of a [`Receiver`].
pub type ReceiverConfig = Transport<Arc<tcp::ReceiverConfig>, Arc<QuicConfig>>;

impl<T: End, Q: End> End for Transport<T, Box<Q>> {
    #[inline]
    fn on_packet(&mut self, packet: &Packet, now: Nanos) {
        match self {
            Transport::Tcp(end) => end.on_packet(packet, now),
            Transport::Quic(end) => end.on_packet(packet, now),
        }
    }
    fn on_timer(&mut self, now: Nanos) {
        match self {
            Transport::Tcp(end) => end.on_timer(now),
            Transport::Quic(end) => end.on_timer(now),
        }
    }
    #[inline]
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        match self {
            Transport::Tcp(end) => end.poll_transmit(now),
            Transport::Quic(end) => end.poll_transmit(now),
        }
    }
    #[inline]
    fn transmit_into(&mut self, place: &mut Packet, now: Nanos) -> bool {
        match self {
            Transport::Tcp(end) => end.transmit_into(place, now),
            Transport::Quic(end) => end.transmit_into(place, now),
        }
    }
    #[inline]
    fn next_timer(&self) -> Option<Nanos> {
        match self {
            Transport::Tcp(end) => end.next_timer(),
            Transport::Quic(end) => end.next_timer(),
        }
    }
}

impl<T: Source, Q: Source> Source for Transport<T, Box<Q>> {
    type Config = Transport<T::Config, Q::Config>;

    fn open(config: &Self::Config, flow: FlowId) -> Self {
        match config {
            Transport::Tcp(config) => Transport::Tcp(T::open(config, flow)),
            Transport::Quic(config) => Transport::Quic(Box::new(Q::open(config, flow))),
        }
    }
    fn supply(&mut self, supply: Supply, now: Nanos) {
        match self {
            Transport::Tcp(end) => end.supply(supply, now),
            Transport::Quic(end) => end.supply(supply, now),
        }
    }
    #[inline]
    fn rtt(&self) -> RttSamples {
        match self {
            Transport::Tcp(end) => end.rtt(),
            Transport::Quic(end) => end.rtt(),
        }
    }
    fn view(&self) -> SourceView {
        match self {
            Transport::Tcp(end) => end.view(),
            Transport::Quic(end) => end.view(),
        }
    }
}

impl<T: Sink, Q: Sink> Sink for Transport<T, Box<Q>> {
    type Config = Transport<T::Config, Q::Config>;

    fn open(config: &Self::Config, flow: FlowId) -> Self {
        match config {
            Transport::Tcp(config) => Transport::Tcp(T::open(config, flow)),
            Transport::Quic(config) => Transport::Quic(Box::new(Q::open(config, flow))),
        }
    }
    #[inline]
    fn delivered(&self) -> u64 {
        match self {
            Transport::Tcp(end) => end.delivered(),
            Transport::Quic(end) => end.delivered(),
        }
    }
    fn piggyback(&mut self, now: Nanos) -> Option<Packet> {
        match self {
            Transport::Tcp(end) => end.piggyback(now),
            Transport::Quic(_) => None,
        }
    }
}
