//! Runs the points of a radio scenario.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::scenario::{Field, RadioArm, RadioScenario};
use ackwise_policy::{Capabilities, Config, FlowConfig};
use ackwise_queue::Nanos;
use ackwise_rng::Rng;
use ackwise_scenario::{ScenarioError, SocketOptions};

use crate::world::{FlowSetup, RadioResult, World};
use ackwise_sim::tcp::{self, ReceiverConfig, SenderConfig};

/// The longest ACK delay that RFC 1122 §4.2.3.2 allows: the hold bound of the contract here.
const HOLD_US: u32 = 500_000;
/// The maximum bytes of a frame, MAC header included.
const FRAME: u32 = 127;
const STREAM_START: u64 = 9;

/// One run: an arm on a field, with a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Index into [`RadioScenario::arms`].
    pub arm: usize,
    /// Index into [`RadioScenario::fields`].
    pub field: usize,
    /// The seed.
    pub seed: u64,
}

/// The ends of an arm's flows.
fn ends(
    scenario: &RadioScenario,
    arm: &RadioArm,
) -> Result<(Arc<SenderConfig>, Arc<ReceiverConfig>), ScenarioError> {
    let wrong = |message: String| scenario.error_at(&arm.policy_span, message);
    let socket = SocketOptions {
        timestamps: Some(false),
        window_scaling: Some(false),
        ..SocketOptions::default()
    };
    let mtu = FRAME - arm.radio.mac.header;
    let (mut sender, mut receiver) =
        tcp::configure(&arm.cc, &arm.model, &socket, mtu).map_err(|error| {
            let message = format!("'{}' cannot be modelled: {error}", arm.name);
            scenario.error_at(&arm.cc_span, message)
        })?;
    // As in uIP. What TDA waits for at the end of a transfer is included in its time.
    sender.fin_with_data = false;
    if let Some(text) = &arm.policy {
        let policy: Config = text.parse().map_err(|e| wrong(format!("{e}")))?;
        let environment = Capabilities::STACK;
        let check = policy.policy().check(environment);
        check.map_err(|e| wrong(e.to_string()))?;
        receiver.policy = Some(tcp::StackPolicy {
            flow: FlowConfig::new(&policy).with_hold(HOLD_US, HOLD_US, 0),
            // Windows are a few segments of 48 bytes, so they must not be rounded.
            shift: 0,
            obey_ack_rate: false,
        });
    }
    Ok((Arc::new(sender), Arc::new(receiver)))
}

fn setups(
    scenario: &RadioScenario,
    field: &Field,
    ends: &(Arc<SenderConfig>, Arc<ReceiverConfig>),
    seed: u64,
) -> Vec<FlowSetup> {
    let mut starts = Rng::stream(seed, STREAM_START);
    let spread = u64::try_from(scenario.stagger.as_nanos()).unwrap_or(u64::MAX);
    let setup = |flow: &crate::scenario::RadioFlow| FlowSetup {
        from: flow.from,
        to: flow.to,
        bytes: scenario.bytes,
        start: starts.below(spread),
        sender: Arc::clone(&ends.0),
        receiver: Arc::clone(&ends.1),
    };
    field.flows.iter().map(setup).collect()
}

/// Checks that every arm's policy and model exist.
///
/// # Errors
/// The first policy or model that does not exist, with its place in the file.
pub fn check(scenario: &RadioScenario) -> Result<(), ScenarioError> {
    let mut arms = scenario.arms.iter();
    arms.try_for_each(|arm| ends(scenario, arm).map(|_| ()))
}

/// The world of a point, and the time at which its run ends.
fn world(scenario: &RadioScenario, point: Point) -> Result<(World, Nanos), ScenarioError> {
    let field = &scenario.fields[point.field];
    let arm = &scenario.arms[point.arm];
    let ends = ends(scenario, arm)?;
    let flows = setups(scenario, field, &ends, point.seed);
    let world = World::new(&field.places, &arm.radio, &flows, point.seed);
    let until = Nanos::try_from(scenario.duration.as_nanos()).unwrap_or(Nanos::MAX);
    Ok((world, until))
}

/// Runs one point.
///
/// # Errors
/// A policy or a model that does not exist, with its place in the file.
pub fn run_point(scenario: &RadioScenario, point: Point) -> Result<RadioResult, ScenarioError> {
    let (mut world, until) = world(scenario, point)?;
    Ok(world.run(until))
}

/// Runs all points, several at a time; returns a result for each, in their order. Once `cancel` is
/// set, the runs end soon; a point that had not ended is `None`. `done` is called with the number of
/// points that have ended so far, by one thread at a time, so that the numbers rise.
///
/// # Errors
/// The same as [`run_point`].
pub fn run_points(
    scenario: &RadioScenario,
    points: &[Point],
    jobs: usize,
    cancel: &AtomicBool,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Option<RadioResult>>, ScenarioError> {
    let (next, finished) = (AtomicUsize::new(0), Mutex::new(0));
    let results = Mutex::new(vec![None; points.len()]);
    let failed = Mutex::new(None);
    let work = || {
        // Building a world takes time, for tables of all its nodes, so check for cancellation first.
        while !cancel.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(index) else {
                return;
            };
            match world(scenario, *point) {
                Ok((mut world, until)) => {
                    let Some(result) = world.run_unless(cancel, until) else {
                        return;
                    };
                    lock(&results)[index] = Some(result);
                }
                Err(error) => {
                    lock(&failed).get_or_insert(error);
                    next.store(points.len(), Ordering::Relaxed);
                }
            }
            let mut finished = lock(&finished);
            *finished += 1;
            done(*finished);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, points.len().max(1)) {
            scope.spawn(work);
        }
    });
    if let Some(error) = lock(&failed).take() {
        return Err(error);
    }
    let results = std::mem::take(&mut *lock(&results));
    Ok(results)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
