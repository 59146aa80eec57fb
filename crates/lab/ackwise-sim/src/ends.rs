//! The ends that a scenario's flows have: TCP's or QUIC's.

use std::sync::Arc;

use ackwise_queue::Nanos;

use crate::endpoint::{End, RttSamples, Sink, Source, SourceView, Supply};
use crate::packet::{FlowId, Packet};
use crate::quic_endpoint::{QuicConfig, QuicReceiver, QuicSender};
use crate::tcp;

/// One thing for TCP, and one for QUIC.
#[derive(Debug, Clone)]
pub enum Transport<T, Q> {
    /// TCP's.
    Tcp(T),
    /// QUIC's.
    Quic(Q),
}

/// An end that sends data. That of a TCP lies in its connection: most are, and one more step to each of
/// them would cost more than the room.
pub type Sender = Transport<tcp::Sender, Box<QuicSender>>;
/// An end that receives and acknowledges.
pub type Receiver = Transport<tcp::Receiver, Box<QuicReceiver>>;
/// What a [`Sender`] is made from.
pub type SenderConfig = Transport<Arc<tcp::SenderConfig>, Arc<QuicConfig>>;
/// What a [`Receiver`] is made from.
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
