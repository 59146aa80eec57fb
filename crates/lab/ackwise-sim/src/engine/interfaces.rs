//! Policies at interfaces: what they hold, and when it leaves.

use ackwise_queue::Nanos;

use super::{Hold, HoldEvent, Network};
use crate::endpoint::{Sink, Source};
use crate::interface_policy::Side;
use crate::line::PolicyAt;
use crate::packet::{Direction, Flags};
use crate::packet_handle::PacketHandle;
use crate::schedule::Target;
use crate::time::NEVER;

impl<S: Source, R: Sink> Network<S, R> {
    /// Shows a packet to the policy at an interface; `None` if the policy keeps it.
    #[cold]
    pub(crate) fn at_interface(
        &mut self,
        at: PolicyAt,
        handle: PacketHandle,
    ) -> Option<PacketHandle> {
        let PolicyAt {
            interface_policy,
            side,
        } = at;
        let number = handle.flow.0 as usize;
        let shift = self.connections[number].shift;
        let carried = (side, handle.direction) == (Side::Acks, Direction::Data)
            && handle.flags.contains(Flags::CARRIES_ACK);
        let whose = if carried { self.peer(number) } else { number };
        let policy = &mut self.interface_policies[usize::from(interface_policy)];
        if (side, handle.direction) == (Side::Acks, Direction::Data) {
            policy.on_other(&handle);
        }
        let is_tcp = !handle.flags.contains(Flags::UDP);
        let is_for = is_tcp && policy.is_for(self.connections[whose].flow);
        if side == Side::Acks && !(is_for && handle.direction == Direction::Ack) {
            policy.count_other(&handle, self.now);
        }
        if !is_for {
            return Some(handle);
        }
        match (side, handle.direction) {
            (Side::Data, Direction::Data) => policy.on_data(number, &handle, shift, self.now),
            (Side::Acks, Direction::Ack) => return self.thinned(interface_policy, handle, shift),
            (Side::Acks, Direction::Data) if carried => {
                let shift = self.connections[whose].shift;
                let carried = policy.on_carried(whose, &handle, shift, self.now);
                if let Some(first) = carried.first {
                    self.past_interface(interface_policy, first);
                }
                if let Some(superseded) = carried.superseded {
                    self.retire(superseded);
                }
            }
            _ => {}
        }
        Some(handle)
    }

    fn thinned(
        &mut self,
        interface_policy: u16,
        handle: PacketHandle,
        shift: u8,
    ) -> Option<PacketHandle> {
        let number = handle.flow.0 as usize;
        let policy = &mut self.interface_policies[usize::from(interface_policy)];
        let outcome = policy.on_ack(number, handle, shift, self.now);
        let deadline = policy.deadline(number);
        if let Some(first) = outcome.first {
            self.past_interface(interface_policy, first);
        }
        if let Some(superseded) = outcome.superseded {
            self.retire(superseded);
        }
        if let Some(at) = deadline {
            self.arm_hold(interface_policy, number, at);
        }
        let handle = outcome.pass?;
        if outcome.twice {
            let duplicate = handle.clone();
            self.connections[number].in_flight += 1;
            self.past_interface(interface_policy, duplicate);
        }
        Some(handle)
    }

    /// Moves on a packet that a policy lets go: into the line at whose entry the policy
    /// stands, or out of the line at whose exit it stands.
    fn past_interface(&mut self, interface_policy: u16, handle: PacketHandle) {
        let hop = self.routes[handle.route() as usize].line();
        if self.lines[hop]
            .enter
            .is_some_and(|at| at.interface_policy == interface_policy && at.side == Side::Acks)
        {
            self.enqueue(hop, handle);
        } else {
            self.send_to_next_hop(handle);
        }
    }

    fn arm_hold(&mut self, interface_policy: u16, connection: usize, at: Nanos) {
        let known = &mut self.hold_of[usize::from(interface_policy)];
        if known.len() <= connection {
            let none = HoldEvent {
                number: u32::MAX,
                due: NEVER,
            };
            known.resize(connection + 1, none);
        }
        let event = &mut known[connection];
        if event.number == u32::MAX {
            event.number = self.holds.len() as u32;
            self.holds.push(Hold {
                interface_policy,
                connection: connection as u32,
            });
        }
        if at < event.due {
            event.due = at;
            self.schedule.push(at, Target::Hold(event.number as usize));
        }
    }

    pub(crate) fn on_hold(&mut self, hold: usize) {
        let Hold {
            interface_policy,
            connection,
        } = self.holds[hold];
        let number = connection as usize;
        let due = &mut self.hold_of[usize::from(interface_policy)][number].due;
        if *due != self.now {
            return;
        }
        *due = NEVER;
        let shift = self.connections[number].shift;
        let policy = &mut self.interface_policies[usize::from(interface_policy)];
        match policy.release(number, shift, self.now) {
            Some(handle) => self.past_interface(interface_policy, handle),
            None => {
                if let Some(at) = policy.deadline(number) {
                    self.arm_hold(interface_policy, number, at);
                }
            }
        }
    }
}
