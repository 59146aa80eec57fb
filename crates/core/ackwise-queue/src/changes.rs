//! Rates and delays that change over time.
//!
//! A [`RateSchedule`] gives what a wire can carry at each time: as a step function of rates, or as
//! delivery opportunities like the traces of mahimahi (Netravali et al., "Mahimahi", USENIX ATC
//! 2015). A [`DelaySchedule`] is a step function of delays, and [`Outages`] are spans in which
//! nothing is sent. All of them may repeat, and all are exact to the nanosecond.

use std::sync::Arc;

use crate::Nanos;

/// A packet that would have to wait for more outages than this never leaves.
const MAX_OUTAGES: u32 = 100_000;

/// How a link changes over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkChanges {
    /// The rate; without it, the rate of the link's configuration applies.
    pub rate: Option<Arc<RateSchedule>>,
    /// Spans in which nothing is sent. They need `rate`.
    pub outages: Option<Arc<Outages>>,
    /// The delay; without it, the delay of the link's configuration applies.
    pub delay: Option<Arc<DelaySchedule>>,
}

/// A value that applies from a certain time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<T> {
    /// The time at which it begins, in nanoseconds after the schedule's origin.
    pub at_ns: Nanos,
    /// The value.
    pub value: T,
}

/// Why a schedule cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// There are no entries.
    #[error("there is no entry")]
    Empty,
    /// The first step does not begin at the start of the schedule.
    #[error("the first entry must be at time 0")]
    LateStart,
    /// The entry with this index does not begin after the one before.
    #[error("entry {0} goes back in time")]
    Backwards(usize),
    /// The schedule repeats before its last entry begins.
    #[error("the schedule repeats before its last entry begins")]
    ShortPeriod,
    /// From some time on, nothing is ever sent.
    #[error("nothing can be sent: the rate is zero for good")]
    NothingSent,
}

/// A step function of time, which may repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Steps<T> {
    steps: Vec<Step<T>>,
    /// The time after which it repeats. If `None`, the last step applies for good.
    period: Option<Nanos>,
}

impl<T: Copy> Steps<T> {
    fn new(steps: Vec<Step<T>>, period: Option<Nanos>) -> Result<Self, ScheduleError> {
        let first = steps.first().ok_or(ScheduleError::Empty)?;
        if first.at_ns != 0 {
            return Err(ScheduleError::LateStart);
        }
        let back = steps
            .windows(2)
            .position(|two| two[1].at_ns <= two[0].at_ns);
        if let Some(index) = back {
            return Err(ScheduleError::Backwards(index + 1));
        }
        let last = steps.last().map_or(0, |step| step.at_ns);
        if period.is_some_and(|period| period <= last) {
            return Err(ScheduleError::ShortPeriod);
        }
        Ok(Self { steps, period })
    }

    /// The index of the step that applies at an offset into the period.
    fn index_at(&self, offset: Nanos) -> usize {
        self.steps.partition_point(|step| step.at_ns <= offset) - 1
    }

    /// The value at `t`.
    fn at(&self, t: Nanos) -> T {
        let offset = self.period.map_or(t, |period| t % period);
        self.steps[self.index_at(offset)].value
    }

    /// The function moved so that its time 0 is the caller's `origin`. If it does not repeat, its
    /// first value applies before that.
    fn moved_to(&self, origin: Nanos) -> (Self, Nanos) {
        match self.period {
            Some(period) => (self.clone(), (period - origin % period) % period),
            None => {
                let moved = self.steps.iter().enumerate().map(|(index, step)| Step {
                    at_ns: match index {
                        0 => 0,
                        _ => step.at_ns.saturating_add(origin),
                    },
                    value: step.value,
                });
                let steps = Steps {
                    steps: moved.collect(),
                    period: None,
                };
                (steps, 0)
            }
        }
    }
}

/// What a wire can carry at each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateSchedule {
    process: Process,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Process {
    Fluid(Fluid),
    Opportunities(Opportunities),
}

/// A step function of rates, with its integral.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fluid {
    rates: Steps<u64>,
    /// The integral of the rate from the origin to the start of each step, in bits · 10⁹.
    before: Vec<u128>,
    /// The integral over a period, if it repeats.
    in_period: Option<u128>,
}

/// Times at which a wire can deliver a number of bytes at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opportunities {
    /// Offsets into the period, above 0 and at most the period, in order.
    at_ns: Vec<Nanos>,
    period: Nanos,
    /// The bytes that each opportunity carries.
    pub(crate) bytes: u32,
}

impl RateSchedule {
    /// Rates in bits per second, each from its time on. A rate may be 0. With a `period`, they
    /// repeat after that time.
    ///
    /// # Errors
    /// The steps are out of order, or the wire would send nothing for good.
    pub fn steps(rates: Vec<Step<u64>>, period: Option<Nanos>) -> Result<Self, ScheduleError> {
        let rates = Steps::new(rates, period)?;
        let sends = match period {
            Some(_) => rates.steps.iter().any(|step| step.value > 0),
            None => rates.steps.last().is_some_and(|step| step.value > 0),
        };
        if !sends {
            return Err(ScheduleError::NothingSent);
        }
        Ok(Self {
            process: Process::Fluid(Fluid::new(rates)),
        })
    }

    /// A constant rate in bits per second; 0 counts as 1.
    #[must_use]
    pub fn constant(rate_bps: u64) -> Self {
        let rates = Steps {
            steps: vec![Step {
                at_ns: 0,
                value: rate_bps.max(1),
            }],
            period: None,
        };
        Self {
            process: Process::Fluid(Fluid::new(rates)),
        }
    }

    /// Delivery opportunities as in mahimahi: at each of these times, in nanoseconds, `bytes` can
    /// be delivered at once, to one packet or to several. An opportunity without a packet is lost.
    /// The list repeats after its last time; several opportunities may be at the same time.
    ///
    /// # Errors
    /// The times are out of order, or there is none after 0.
    pub fn opportunities(mut at_ns: Vec<Nanos>, bytes: u32) -> Result<Self, ScheduleError> {
        let period = *at_ns.last().ok_or(ScheduleError::Empty)?;
        if let Some(index) = at_ns.windows(2).position(|two| two[1] < two[0]) {
            return Err(ScheduleError::Backwards(index + 1));
        }
        if period == 0 || bytes == 0 {
            return Err(ScheduleError::NothingSent);
        }
        // An opportunity at 0 is also at the end of the previous round. Before the first round no
        // packet can have arrived that would use it.
        let zeros = at_ns.partition_point(|&at| at == 0);
        at_ns.rotate_left(zeros);
        let from = at_ns.len() - zeros;
        at_ns[from..].fill(period);
        Ok(Self {
            process: Process::Opportunities(Opportunities {
                at_ns,
                period,
                bytes,
            }),
        })
    }

    /// Whether it consists of delivery opportunities rather than rates.
    #[must_use]
    pub fn is_opportunities(&self) -> bool {
        matches!(self.process, Process::Opportunities(_))
    }

    /// The time after which it repeats, in nanoseconds; `None` if it does not.
    #[must_use]
    pub fn period_ns(&self) -> Option<Nanos> {
        match &self.process {
            Process::Fluid(fluid) => fluid.rates.period,
            Process::Opportunities(it) => Some(it.period),
        }
    }

    /// The mean rate in bits per second, at least 1: over a period or, if it does not repeat, over
    /// twice the time up to the last step.
    #[must_use]
    pub fn mean_bps(&self) -> u64 {
        let (work, span) = match &self.process {
            Process::Fluid(fluid) => {
                let last = fluid.rates.steps.last().map_or(0, |step| step.at_ns);
                let span = fluid.rates.period.unwrap_or(2 * last.max(1));
                (fluid.work_until(span), span)
            }
            Process::Opportunities(it) => {
                let bits = it.at_ns.len() as u128 * u128::from(it.bytes) * 8;
                (bits * 1_000_000_000, it.period)
            }
        };
        u64::try_from(work / u128::from(span)).map_or(u64::MAX, |mean| mean.max(1))
    }

    /// The schedule on a clock on which it begins at `origin`.
    pub(crate) fn on_clock(&self, origin: Nanos) -> Clocked {
        match &self.process {
            Process::Fluid(fluid) => {
                let (rates, shift) = fluid.rates.moved_to(origin);
                Clocked {
                    process: ClockedProcess::Fluid(Fluid::new(rates)),
                    shift,
                }
            }
            Process::Opportunities(it) => Clocked {
                process: ClockedProcess::Opportunities(it.clone()),
                shift: (it.period - origin % it.period) % it.period,
            },
        }
    }
}

/// A rate schedule on the clock of its link.
#[derive(Debug, Clone)]
pub(crate) struct Clocked {
    pub(crate) process: ClockedProcess,
    /// The offset from the clock to the schedule's time.
    pub(crate) shift: Nanos,
}

#[derive(Debug, Clone)]
pub(crate) enum ClockedProcess {
    Fluid(Fluid),
    Opportunities(Opportunities),
}

/// The time at which something is sent, and how much more could have been sent by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) at_ns: Nanos,
    /// In bits · 10⁹, less than the rate at that time.
    pub(crate) surplus: u128,
}

impl Fluid {
    fn new(rates: Steps<u64>) -> Self {
        let mut before = Vec::with_capacity(rates.steps.len());
        let mut sum = 0u128;
        for (index, step) in rates.steps.iter().enumerate() {
            before.push(sum);
            let next = rates.steps.get(index + 1).map(|next| next.at_ns);
            if let Some(end) = next.or(rates.period) {
                sum += u128::from(step.value) * u128::from(end - step.at_ns);
            }
        }
        let in_period = rates.period.map(|_| sum);
        Self {
            rates,
            before,
            in_period,
        }
    }

    /// The work that can be done from the origin until `t`, in bits · 10⁹.
    pub(crate) fn work_until(&self, t: Nanos) -> u128 {
        let (rounds, offset) = match (self.rates.period, self.in_period) {
            (Some(period), Some(each)) => (u128::from(t / period) * each, t % period),
            _ => (0, t),
        };
        let index = self.rates.index_at(offset);
        let step = self.rates.steps[index];
        let inside = u128::from(step.value) * u128::from(offset - step.at_ns);
        rounds + self.before[index] + inside
    }

    /// The earliest time by which this much can have been sent since the origin; `target` is above
    /// 0.
    fn reaches(&self, target: u128) -> Finish {
        let (rounds, rest) = match self.in_period {
            Some(each) => ((target - 1) / each, (target - 1) % each + 1),
            None => (0, target),
        };
        // The rate of this step is not 0: the integral passes `rest` within it.
        let index = self.before.partition_point(|&before| before < rest) - 1;
        let step = self.rates.steps[index];
        let (rate, missing) = (u128::from(step.value), rest - self.before[index]);
        let span = missing.div_ceil(rate);
        let period = u128::from(self.rates.period.unwrap_or(0));
        let at = rounds * period + u128::from(step.at_ns) + span;
        Finish {
            at_ns: u64::try_from(at).unwrap_or(u64::MAX),
            surplus: span * rate - missing,
        }
    }

    /// The time at which `work` that begins at `from` is done; nothing is sent during outages.
    pub(crate) fn finish(
        &self,
        from: Nanos,
        mut work: u128,
        outages: Option<&ClockedOutages>,
    ) -> Finish {
        let mut from = from;
        let mut passed = 0;
        while let Some(pause) = outages.map(|it| it.next(from)) {
            passed += 1;
            if passed > MAX_OUTAGES {
                return Finish {
                    at_ns: Nanos::MAX,
                    surplus: 0,
                };
            }
            let able = match pause.start > from {
                true => self.work_until(pause.start) - self.work_until(from),
                false => 0,
            };
            if able >= work {
                break;
            }
            work -= able;
            from = pause.end;
        }
        self.reaches(self.work_until(from) + work)
    }
}

impl Opportunities {
    /// The time of the opportunity with this number.
    pub(crate) fn time(&self, number: u64) -> Nanos {
        if number == u64::MAX {
            return Nanos::MAX;
        }
        let count = self.at_ns.len() as u64;
        let offset = self.at_ns[(number % count) as usize];
        (number / count)
            .saturating_mul(self.period)
            .saturating_add(offset)
    }

    /// The number of the first opportunity at `t` or later.
    pub(crate) fn first_from(&self, t: Nanos) -> u64 {
        let rounds = t.saturating_sub(1) / self.period;
        let offset = t - rounds * self.period;
        let index = self.at_ns.partition_point(|&at| at < offset);
        (rounds * self.at_ns.len() as u64).saturating_add(index as u64)
    }

    /// The number of the first opportunity from this number on that is not in an outage;
    /// `u64::MAX`, whose time never comes, if there is none.
    pub(crate) fn first_usable(&self, mut number: u64, outages: Option<&ClockedOutages>) -> u64 {
        let Some(outages) = outages else {
            return number;
        };
        for _ in 0..MAX_OUTAGES {
            let at = self.time(number);
            let pause = outages.next(at);
            if at < pause.start {
                return number;
            }
            number = self.first_from(pause.end);
        }
        u64::MAX
    }
}

/// A time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Start, in nanoseconds.
    pub start: Nanos,
    /// End, in nanoseconds.
    pub end: Nanos,
}

/// Repeating spans in which a wire sends nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outages {
    spans: Vec<Outage>,
    period: Nanos,
}

impl Outages {
    /// Creates outages that repeat after `period`. The spans must be within it, in order, and not
    /// touch each other.
    ///
    /// # Errors
    /// There are none, they are out of order, or they leave no time to send.
    pub fn new(spans: Vec<Outage>, period: Nanos) -> Result<Self, ScheduleError> {
        let first = spans.first().ok_or(ScheduleError::Empty)?;
        let last = spans.last().ok_or(ScheduleError::Empty)?;
        if let Some(index) = spans.iter().position(|span| span.end <= span.start) {
            return Err(ScheduleError::Backwards(index));
        }
        if let Some(index) = spans.windows(2).position(|two| two[1].start <= two[0].end) {
            return Err(ScheduleError::Backwards(index + 1));
        }
        if last.end > period {
            return Err(ScheduleError::ShortPeriod);
        }
        if first.start == 0 && last.end == period {
            return Err(ScheduleError::NothingSent);
        }
        Ok(Self { spans, period })
    }

    /// The outages in a period, in order.
    #[must_use]
    pub fn spans(&self) -> &[Outage] {
        &self.spans
    }
}

/// Outages on the clock of a rate schedule.
#[derive(Debug, Clone)]
pub(crate) struct ClockedOutages {
    outages: Arc<Outages>,
    /// The offset from the schedule's time to that of the outages.
    shift: Nanos,
}

impl ClockedOutages {
    /// Outages that begin at `origin` of a clock, on another clock that is `shift` ahead.
    pub(crate) fn new(outages: Arc<Outages>, origin: Nanos, shift: Nanos) -> Self {
        let period = u128::from(outages.period);
        // `origin` + `shift` on the other clock is time 0 of the outages.
        let zero = (u128::from(origin) + u128::from(shift)) % period;
        let shift = (period - zero) % period;
        Self {
            outages,
            shift: shift as Nanos,
        }
    }

    /// The outage at `t`, or else the next one, on the clock of `t`.
    fn next(&self, t: Nanos) -> Outage {
        let Outages { spans, period } = &*self.outages;
        let own = t.saturating_add(self.shift);
        let (round, offset) = (own / period, own % period);
        let index = spans.partition_point(|span| span.end <= offset);
        let (round, span) = match spans.get(index) {
            Some(span) => (round, *span),
            None => (round + 1, spans[0]),
        };
        let base = round.saturating_mul(*period);
        // The clock of `t` cannot represent times before its 0.
        Outage {
            start: base.saturating_add(span.start).saturating_sub(self.shift),
            end: base.saturating_add(span.end).saturating_sub(self.shift),
        }
    }
}

/// A step function of one-way delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelaySchedule {
    delays: Steps<Nanos>,
}

impl DelaySchedule {
    /// Delays in nanoseconds, each for packets that leave the sender from its time on. With a
    /// `period`, they repeat after that time.
    ///
    /// # Errors
    /// The steps are out of order.
    pub fn steps(delays: Vec<Step<Nanos>>, period: Option<Nanos>) -> Result<Self, ScheduleError> {
        Ok(Self {
            delays: Steps::new(delays, period)?,
        })
    }

    /// The delay of a packet that left at `t` after the origin, in nanoseconds.
    #[must_use]
    pub fn at(&self, t: Nanos) -> Nanos {
        self.delays.at(t)
    }

    /// The minimum delay, in nanoseconds.
    #[must_use]
    pub fn min_delay(&self) -> Nanos {
        let delays = self.delays.steps.iter().map(|step| step.value);
        delays.min().unwrap_or(0)
    }

    /// The schedule on a clock on which it begins at `origin`.
    pub(crate) fn on_clock(&self, origin: Nanos) -> ClockedDelay {
        let (delays, shift) = self.delays.moved_to(origin);
        ClockedDelay { delays, shift }
    }
}

/// A delay schedule on the clock of its link.
#[derive(Debug, Clone)]
pub(crate) struct ClockedDelay {
    delays: Steps<Nanos>,
    shift: Nanos,
}

impl ClockedDelay {
    pub(crate) fn at(&self, now: Nanos) -> Nanos {
        self.delays.at(now.saturating_add(self.shift))
    }
}
