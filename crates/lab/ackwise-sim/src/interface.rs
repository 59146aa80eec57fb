//! Policies at interfaces: what they keep, and when it leaves.

use ackwise_queue::Nanos;

use crate::ends::{Sink, Source};
use crate::engine::{NEVER, Network};
use crate::hook::Side;
use crate::packet::{Flags, Way};
use crate::parcel::Parcel;
use crate::schedule::Target;

impl<S: Source, R: Sink> Network<S, R> {
    /// Shows a packet to the policy at an interface; `None` if that keeps it.
    #[cold]
    pub(crate) fn hooked(&mut self, hook: u16, side: Side, parcel: Parcel) -> Option<Parcel> {
        let number = parcel.flow.0 as usize;
        let shift = self.connections[number].shift;
        let carried = (side, parcel.way) == (Side::Acks, Way::Data)
            && parcel.flags.contains(Flags::CARRIES_ACK);
        let whose = if carried { self.peer(number) } else { number };
        let policy = &mut self.hooks[usize::from(hook)];
        if !policy.is_for(self.connections[whose].flow) {
            return Some(parcel);
        }
        match (side, parcel.way) {
            (Side::Data, Way::Data) => policy.on_data(number, &parcel, shift, self.now),
            (Side::Acks, Way::Ack) => return self.thinned(hook, parcel, shift),
            (Side::Acks, Way::Data) if carried => {
                let shift = self.connections[whose].shift;
                if let Some(gone) = policy.on_carried(whose, &parcel, shift, self.now) {
                    self.retire(gone);
                }
            }
            _ => {}
        }
        Some(parcel)
    }

    fn thinned(&mut self, hook: u16, parcel: Parcel, shift: u8) -> Option<Parcel> {
        let number = parcel.flow.0 as usize;
        let policy = &mut self.hooks[usize::from(hook)];
        let outcome = policy.on_ack(number, parcel, shift, self.now);
        let deadline = policy.deadline(number);
        if let Some(gone) = outcome.gone {
            self.retire(gone);
        }
        if let Some(at) = deadline {
            self.arm_hold(hook, number, at);
        }
        let parcel = outcome.pass?;
        if outcome.twice {
            let twin = parcel.clone();
            self.connections[number].under_way += 1;
            self.past_hook(hook, twin);
        }
        Some(parcel)
    }

    /// On from a policy that lets a packet go: into the line at whose entry it
    /// stands, or on from the line at whose exit it stands.
    fn past_hook(&mut self, hook: u16, parcel: Parcel) {
        let hop = self.routes[parcel.route() as usize].line();
        if self.lines[hop]
            .enter
            .is_some_and(|(at, side)| at == hook && side == Side::Acks)
        {
            self.enqueue(hop, parcel);
        } else {
            self.go_on(parcel);
        }
    }

    fn arm_hold(&mut self, hook: u16, connection: usize, at: Nanos) {
        let known = &mut self.hold_of[usize::from(hook)];
        if known.len() <= connection {
            known.resize(connection + 1, (u32::MAX, NEVER));
        }
        let (number, due) = &mut known[connection];
        if *number == u32::MAX {
            *number = self.holds.len() as u32;
            self.holds.push((hook, connection as u32));
        }
        if at < *due {
            *due = at;
            self.schedule.push(at, Target::Hold(*number as usize));
        }
    }

    pub(crate) fn on_hold(&mut self, hold: usize) {
        let (hook, connection) = self.holds[hold];
        let number = connection as usize;
        let due = &mut self.hold_of[usize::from(hook)][number].1;
        if *due != self.now {
            return;
        }
        *due = NEVER;
        let shift = self.connections[number].shift;
        let policy = &mut self.hooks[usize::from(hook)];
        match policy.release(number, shift, self.now) {
            Some(parcel) => self.past_hook(hook, parcel),
            None => {
                if let Some(at) = policy.deadline(number) {
                    self.arm_hold(hook, number, at);
                }
            }
        }
    }
}
