//! The medium: which nodes hear a frame, and which frames collide.
//!
//! A frame is decodable for the nodes within transmission range, noise for those within
//! interference range, and a busy channel for those within carrier-sense range. A receiver
//! locks on to the first frame that it hears while it listens; any other frame within
//! interference range spoils it, and is not received itself. With
//! capture, a frame survives others that are weaker by that many decibels (power falls with the
//! square of the distance), and a stronger frame takes over. Signals are instantaneous:
//! 30 m are 0.1 µs.

use crate::scenario::RadioModel;
use ackwise_queue::Nanos;

use crate::frame::NodeId;

/// How a node hears another.
#[derive(Debug, Clone, Copy)]
struct RxLink {
    node: NodeId,
    decodes: bool,
    disturbs: bool,
    senses: bool,
    /// Relative power, 1 at one metre.
    power: f64,
}

/// A frame that is being received.
#[derive(Debug, Clone, Copy)]
struct Lock {
    frame: u64,
    power: f64,
    spoiled: bool,
}

#[derive(Debug, Clone, Default)]
struct Radio {
    /// Number of frames in the air that it senses.
    busy: u32,
    /// When the last sensed frame ended.
    busy_until: Nanos,
    /// Total power of the interfering frames, and their number.
    noise: f64,
    noises: u32,
    lock: Option<Lock>,
    /// Whether it sends, or is about to, so that it hears nothing.
    rx_disabled: bool,
}

/// How a receiver's frame ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The receiving node.
    pub node: NodeId,
    /// Whether the frame was received whole; otherwise it was spoiled.
    pub whole: bool,
}

/// The medium.
#[derive(Debug)]
pub struct Air {
    rx_links: Vec<Vec<RxLink>>,
    radios: Vec<Radio>,
    /// Power ratio from which the stronger frame survives; `None` if none does.
    capture: Option<f64>,
    next: u64,
    /// Frames that a receiver had locked on to and lost to another frame.
    pub collisions: u64,
}

impl Air {
    /// The medium between nodes at these places, in metres.
    pub fn new(places: &[(f64, f64)], model: &RadioModel) -> Air {
        let rx_links = places.iter().enumerate().map(|(from, a)| {
            let hears = |(node, b): (NodeId, &(f64, f64))| {
                let square = (a.0 - b.0).powi(2) + (a.1 - b.1).powi(2);
                let within = |range: f64| square <= range * range;
                let rx_link = RxLink {
                    node,
                    decodes: within(model.range_m),
                    disturbs: within(model.interference_m),
                    senses: within(model.carrier_sense_m),
                    power: 1.0 / square.max(1.0),
                };
                (node != from && (rx_link.decodes || rx_link.disturbs || rx_link.senses))
                    .then_some(rx_link)
            };
            places.iter().enumerate().filter_map(hears).collect()
        });
        Air {
            rx_links: rx_links.collect(),
            radios: vec![Radio::default(); places.len()],
            capture: model.capture_db.map(|db| 10f64.powf(db / 10.0)),
            next: 0,
            collisions: 0,
        }
    }

    /// Whether a node has sensed nothing since `since`.
    pub fn is_clear(&self, node: NodeId, since: Nanos) -> bool {
        let radio = &self.radios[node];
        radio.busy == 0 && radio.busy_until <= since && !radio.rx_disabled
    }

    /// Turns a node to sending; a frame that it was receiving is lost.
    pub fn disable_rx(&mut self, node: NodeId) {
        self.radios[node].rx_disabled = true;
        self.radios[node].lock = None;
    }

    /// Turns a node back to listening. An earlier CCA counts its own frame as a busy channel.
    pub fn listen(&mut self, node: NodeId, now: Nanos) {
        let radio = &mut self.radios[node];
        radio.rx_disabled = false;
        radio.busy_until = now;
    }

    /// Turns a radio on: it receives frames that begin from now on, and senses those in the air.
    pub fn wake(&mut self, node: NodeId) {
        self.radios[node].rx_disabled = false;
    }

    /// Whether a node is receiving a frame.
    pub fn receives(&self, node: NodeId) -> bool {
        self.radios[node].lock.is_some()
    }

    /// Begins a frame. `locked` is called with each node that begins to receive it.
    pub fn begin(&mut self, from: NodeId, mut locked: impl FnMut(NodeId)) -> u64 {
        let frame = self.next;
        self.next += 1;
        for rx_link in &self.rx_links[from] {
            let radio = &mut self.radios[rx_link.node];
            let quiet = radio.noises == 0;
            let before = radio.noise;
            radio.busy += u32::from(rx_link.senses);
            if rx_link.disturbs || rx_link.decodes {
                radio.noise += rx_link.power;
                radio.noises += 1;
                if let Some(lock) = &mut radio.lock {
                    let noise = radio.noise - lock.power;
                    let holds = self.capture.is_some_and(|r| lock.power >= r * noise);
                    if !holds && !lock.spoiled {
                        lock.spoiled = true;
                        self.collisions += 1;
                    }
                }
            }
            if radio.rx_disabled || !rx_link.decodes {
                continue;
            }
            let stronger = self.capture.is_some_and(|r| rx_link.power >= r * before);
            if radio.lock.is_none() || (stronger && !quiet) {
                let spoiled = !quiet && !stronger;
                radio.lock = Some(Lock {
                    frame,
                    power: rx_link.power,
                    spoiled,
                });
                self.collisions += u64::from(spoiled);
                locked(rx_link.node);
            }
        }
        frame
    }

    /// Ends the frame. `heard` is called for each node that had locked on to it.
    pub fn end(&mut self, from: NodeId, frame: u64, now: Nanos, mut heard: impl FnMut(Heard)) {
        for rx_link in &self.rx_links[from] {
            let radio = &mut self.radios[rx_link.node];
            if rx_link.senses {
                radio.busy -= 1;
                radio.busy_until = now;
            }
            if rx_link.disturbs || rx_link.decodes {
                radio.noises -= 1;
                // A sum of floats does not return to exactly zero.
                radio.noise = if radio.noises == 0 {
                    0.0
                } else {
                    radio.noise - rx_link.power
                };
            }
            if let Some(lock) = radio.lock.filter(|lock| lock.frame == frame) {
                radio.lock = None;
                heard(Heard {
                    node: rx_link.node,
                    whole: !lock.spoiled,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CCA that began while the node sent is not clear; one that begins at the end is.
    #[test]
    fn its_own_frame_is_a_busy_channel_too() {
        let mut air = Air::new(&[(0.0, 0.0), (9.0, 0.0)], &RadioModel::default());
        assert!(air.is_clear(0, 0));
        air.disable_rx(0);
        let frame = air.begin(0, |_| {});
        assert!(!air.is_clear(0, 100) && !air.is_clear(1, 100));
        air.end(0, frame, 200, |_| {});
        air.listen(0, 200);
        assert!(!air.is_clear(0, 199) && air.is_clear(0, 200));
        assert!(!air.is_clear(1, 199) && air.is_clear(1, 200));
    }
}
