//! Delivers restored packets to the kernel through the tunnel's device: in batches, or one by one.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Deref;

use ackwise_netdev::{Role, TunDevice};
use ackwise_policy::LinkKind;

use crate::Error;
use crate::batch_injector::{BatchInjector, MAX_PACKET, SLOTS};
use crate::stats::{Delivery, Restored};

/// The smallest batch. Writing fewer packets one by one takes less CPU time.
const MIN_BATCH: usize = 16;

/// The tunnel's device, and the batches that it delivers.
#[derive(Debug)]
pub(crate) struct TunInjector {
    device: TunDevice,
    injector: RefCell<Option<BatchInjector>>,
    stats: RefCell<Restored>,
    /// The packets that the kernel refused since the last flush.
    lost: Cell<u64>,
}

impl Deref for TunInjector {
    type Target = TunDevice;

    fn deref(&self) -> &TunDevice {
        &self.device
    }
}

impl TunInjector {
    /// Creates the device. It works without batches if the kernel does not support them.
    ///
    /// # Errors
    /// Fails if the name is in use, if a privilege is missing, or if the kernel has no TUN.
    pub fn open(name: &str, mtu: u32) -> Result<Self, Error> {
        let device = TunDevice::open(name, LinkKind::Ip, mtu, Role::Routed)?;
        let injector = Self {
            injector: RefCell::default(),
            stats: RefCell::default(),
            lost: Cell::new(0),
            device,
        };
        match BatchInjector::load(&injector.device) {
            Ok(batch) => *injector.injector.borrow_mut() = Some(batch),
            Err(error) => injector.one_by_one(&error),
        }
        Ok(injector)
    }

    /// Returns whether there is a program that delivers batches.
    pub fn has_batches(&self) -> bool {
        self.injector.borrow().is_some()
    }

    /// Finds out whether batches work. Call it on the thread that will use them, after it has
    /// dropped its privileges.
    pub fn begin(&self) {
        let Some(probe) = self.injector.borrow().as_ref().map(BatchInjector::probe) else {
            return;
        };
        match probe {
            Ok(()) => self.stats.borrow_mut().delivery = Delivery::Batched,
            Err(error) => self.one_by_one(&error),
        }
    }

    /// Checks that batches still work. Call it several times per second.
    pub fn check_batching(&self) {
        let found = self.injector.borrow().as_ref().map(BatchInjector::check);
        if let Some(Err(error)) = found {
            self.one_by_one(&error);
        }
    }

    /// Writes packets one by one from now on, and records why.
    fn one_by_one(&self, why: &dyn std::fmt::Display) {
        *self.injector.borrow_mut() = None;
        let mut stats = self.stats.borrow_mut();
        stats.delivery = Delivery::Single;
        stats.reason = Some(why.to_string());
        tracing::info!("restored packets are written one by one: {why}");
    }

    pub fn stats(&self) -> Restored {
        self.stats.borrow().clone()
    }

    /// Delivers a packet as if it had arrived through the device, now or with
    /// [`TunInjector::flush`].
    pub fn put(&self, packet: &[u8]) {
        if self.queue(packet) {
            return;
        }
        self.deliver();
        if packet.len() > MAX_PACKET || !self.queue(packet) {
            self.write(packet);
        }
    }

    /// Adds a packet to the batch. Returns whether it fits.
    fn queue(&self, packet: &[u8]) -> bool {
        let injector = self.injector.borrow();
        injector.as_ref().is_some_and(|known| known.push(packet))
    }

    /// Delivers the batch. Returns the number of packets that the kernel refused since the
    /// last call.
    pub fn flush(&self) -> u64 {
        self.deliver();
        self.lost.take()
    }

    fn deliver(&self) {
        let mut broken = None;
        if let Some(injector) = self.injector.borrow().as_ref() {
            let mut done = 0;
            if injector.len() >= MIN_BATCH {
                let (taken, result) = injector.run();
                done = taken;
                let mut stats = self.stats.borrow_mut();
                stats.batched += done as u64;
                stats.calls += 1;
                if let Err(error) = result {
                    stats.interrupted += 1;
                    broken = Some(error).filter(|error| !is_temporary(error));
                }
            }
            // Write the rest in order.
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

/// Returns whether a batch may work the next time.
fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::ENOMEM)
    )
}

const _: () = assert!(MIN_BATCH <= SLOTS);
