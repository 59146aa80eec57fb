//! How restored packets come in: many at a time, or one by one.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Deref;

use ackwise_netdev::{Role, TunDevice};
use ackwise_policy::LinkKind;

use crate::Error;
use crate::inject::{Injector, LONGEST, SLOTS};
use crate::stats::{Arrivals, Restored};

/// Fewer are written one by one: that is cheaper.
const FEW: usize = 16;

/// The tunnel's device.
#[derive(Debug)]
pub(crate) struct Entrance {
    device: TunDevice,
    injector: RefCell<Option<Injector>>,
    stats: RefCell<Restored>,
    /// Packets that the kernel would not take, of those that waited.
    lost: Cell<u64>,
}

impl Deref for Entrance {
    type Target = TunDevice;

    fn deref(&self) -> &TunDevice {
        &self.device
    }
}

impl Entrance {
    /// Makes the device. That the kernel cannot take packets many at a time is no error.
    ///
    /// # Errors
    /// There is one of that name, a right is missing, or the kernel has no TUN.
    pub fn open(name: &str, mtu: u32) -> Result<Self, Error> {
        let device = TunDevice::open(name, LinkKind::Ip, mtu, Role::Routed)?;
        let entrance = Self {
            injector: RefCell::default(),
            stats: RefCell::default(),
            lost: Cell::new(0),
            device,
        };
        match Injector::load(&entrance.device) {
            Ok(injector) => *entrance.injector.borrow_mut() = Some(injector),
            Err(error) => entrance.one_by_one(&error),
        }
        Ok(entrance)
    }

    /// To be called by the thread that will use it, when its rights are gone.
    pub fn begin(&self) {
        let Some(probe) = self.injector.borrow().as_ref().map(Injector::probe) else {
            return;
        };
        match probe {
            Ok(()) => self.stats.borrow_mut().arrivals = Arrivals::Together,
            Err(error) => self.one_by_one(&error),
        }
    }

    /// To be called some times a second.
    pub fn look_around(&self) {
        let found = self.injector.borrow().as_ref().map(Injector::look_around);
        if let Some(Err(error)) = found {
            self.one_by_one(&error);
        }
    }

    /// From now on, and why.
    fn one_by_one(&self, why: &dyn std::fmt::Display) {
        *self.injector.borrow_mut() = None;
        let mut stats = self.stats.borrow_mut();
        stats.arrivals = Arrivals::OneByOne;
        stats.why = Some(why.to_string());
        tracing::info!("restored packets are written one by one: {why}");
    }

    pub fn stats(&self) -> Restored {
        self.stats.borrow().clone()
    }

    /// Receives a packet as if it had come from a wire, now or with [`Entrance::flush`].
    pub fn put(&self, packet: &[u8]) {
        if self.keep(packet) {
            return;
        }
        self.hand_over();
        if packet.len() > LONGEST || !self.keep(packet) {
            self.write(packet);
        }
    }

    /// Whether it waits now.
    fn keep(&self, packet: &[u8]) -> bool {
        let injector = self.injector.borrow();
        injector.as_ref().is_some_and(|known| known.push(packet))
    }

    /// Receives what waits. How many packets, since the last time, could not be.
    pub fn flush(&self) -> u64 {
        self.hand_over();
        self.lost.take()
    }

    fn hand_over(&self) {
        let mut broken = None;
        if let Some(injector) = self.injector.borrow().as_ref() {
            let mut done = 0;
            if injector.len() >= FEW {
                let (taken, result) = injector.run();
                done = taken;
                let mut stats = self.stats.borrow_mut();
                stats.together += done as u64;
                stats.calls += 1;
                if let Err(error) = result {
                    stats.interrupted += 1;
                    broken = Some(error).filter(|error| !passes(error));
                }
            }
            // What was not taken, in its order.
            injector.take(done, |packet| self.write(packet));
        }
        if let Some(error) = broken {
            self.one_by_one(&error);
        }
    }

    fn write(&self, packet: &[u8]) {
        if !self.device.inject(packet).unwrap_or(false) {
            self.lost.set(self.lost.get() + 1);
        }
    }
}

/// Whether it may be better the next time.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::ENOMEM)
    )
}

const _: () = assert!(FEW <= SLOTS);
