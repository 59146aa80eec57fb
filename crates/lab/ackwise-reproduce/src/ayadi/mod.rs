//! Ayadi: TCP over several hops of IEEE 802.15.4, with fewer ACKs. It covers throughput, energy and
//! their ratio over a chain (Figs. 1 and 3), a cross (Fig. 5) and a grid (Fig. 7).
//!
//! The scenarios are in `scenarios/papers/ayadi-2013/`. What the survey leaves open, and what
//! was chosen, is in `docs/papers/ayadi-2013.md`.

mod claims;
mod figures;
mod open;
mod order;
mod ours;
mod points;
mod sleep;
mod survey;

use ackwise_radio::scenario::RadioSpec;
use ackwise_report::Experiment;

use crate::{Claim, Engine, Error, Held, Lab, Paper, Reproduced};
use points::{Metric, Place, Points, experiment};

/// An arm of the scenarios, with its title.
pub(super) struct Arm {
    pub name: &'static str,
    pub title: &'static str,
}

const fn arm(name: &'static str, title: &'static str) -> Arm {
    Arm { name, title }
}

/// The paper's arms, and plain factors beside them.
const PAPER: [Arm; 8] = [
    arm("tcp", "TCP, d = 1"),
    arm("tcp-d2", "TCP, d = 2"),
    arm("tcp-d3", "TCP, d = 3"),
    arm("tcp-d4", "TCP, d = 4"),
    arm("dda", "DDA"),
    arm("daa", "DAA"),
    arm("dca", "DCA"),
    arm("tda", "TDA"),
];
/// Arms that the paper did not try, on all fields.
const OWN: [Arm; 3] = [
    arm("tack", "TACK"),
    arm("hop", "hop (ours)"),
    arm("hop-patient", "hop, patient sender"),
];
/// More such arms, on the chain alone.
const CHAIN: [Arm; 8] = [
    arm("tcp-d2-abc", "TCP, d = 2, ABC"),
    arm("dca-abc", "DCA, ABC"),
    arm("tda-abc", "TDA, ABC"),
    arm("hop-abc", "hop, ABC"),
    arm("hop-untold", "hop, window not told"),
    arm("tda-ask", "TDA, ACKs asked for by a bit"),
    arm("tda-ask-once", "the same, once a window"),
    arm("dca-below", "DCA, 3 and 9 hops as longer paths"),
];
/// The schemes that the paper compares with TCP in each figure.
const DELAYED: [Arm; 2] = [arm("dca", "DCA"), arm("tda", "TDA")];

/// A scenario of the paper.
macro_rules! scenario {
    ($name:literal) => {
        (
            concat!("scenarios/papers/ayadi-2013/", $name, ".toml"),
            include_str!(concat!(
                "../../../../../scenarios/papers/ayadi-2013/",
                $name,
                ".toml"
            )),
        )
    };
}

const CHAIN_FILE: (&str, &str) = scenario!("chain");
const FLOWS_FILE: (&str, &str) = scenario!("flows");
const CROSS_FILE: (&str, &str) = scenario!("cross");
const GRID_FILE: (&str, &str) = scenario!("grid");
const SINGLE_FILE: (&str, &str) = scenario!("single-hop");
const OPEN_FILE: (&str, &str) = scenario!("open");
const ORDER_FILE: (&str, &str) = scenario!("order");
const SURVEY_FILE: (&str, &str) = scenario!("survey");
const SLEEP_FILES: [(&str, &str); 2] = [scenario!("sleep"), scenario!("sleep-listen")];
/// Scenarios that distinguish `hop` from DCA and TDA, which takes more than ten seeds.
const HOP_FILES: [(&str, &str); 4] = [
    scenario!("hop-chain"),
    scenario!("hop-flows"),
    scenario!("hop-cross"),
    scenario!("hop-grid"),
];
/// Seeds of [`HOP_FILES`] that run with `--quick`.
const QUICK_HOP_SEEDS: u64 = 2;

const SETUP: &str = "sim; 1000 segments of 48 B a flow, 802.15.4 with the parameters of INETMANET of \
                     2011, AODV; means of ten seeds";

/// The paper.
pub struct Ayadi;

impl Paper for Ayadi {
    fn name(&self) -> &'static str {
        "ayadi"
    }

    fn title(&self) -> &'static str {
        "TCP Delayed Acknowledgment Techniques for Low-power Multi-hop Wireless Networks"
    }

    fn source(&self) -> &'static str {
        "A. Ayadi; 2013"
    }

    fn about(&self) -> &'static str {
        "Each ACK costs energy on every hop, and the channel that data need. The paper surveys \
         receivers that send fewer (DDA, DAA, DCA, TDA) and simulates two of them over IEEE \
         802.15.4: both are said to raise throughput and to save 10 to 20 % of the energy. Its \
         figures have no numbers to read off. Here: all of its points with confidence intervals, \
         what its text says of them, what it leaves open, one thing at a time, and what it did not \
         try."
    }

    fn engines(&self) -> &'static [Engine] {
        &[Engine::Sim]
    }

    fn claims(&self) -> &'static [Claim] {
        &CLAIMS
    }

    fn tolerances(&self) -> Vec<Held> {
        TOLERANCES.to_vec()
    }

    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error> {
        let run = |(path, text): (&str, &str)| {
            let report = lab.run_radio(path, text, |_| true)?;
            Ok::<Points, Error>(Points::new(report))
        };
        let fields = Fields {
            single: run(SINGLE_FILE)?,
            chain: run(CHAIN_FILE)?,
            flows: run(FLOWS_FILE)?,
            cross: run(CROSS_FILE)?,
            grid: run(GRID_FILE)?,
        };
        let quick = lab.quick();
        let (path, text) = OPEN_FILE;
        let open = lab.run_radio(path, text, |run| !quick || run.seed <= open::QUICK_SEEDS)?;
        let mut hop = Vec::with_capacity(HOP_FILES.len());
        for (path, text) in HOP_FILES {
            let some = |run: &RadioSpec| !quick || run.seed <= QUICK_HOP_SEEDS;
            hop.push(Points::new(lab.run_radio(path, text, some)?));
        }
        let some = |run: &RadioSpec| !quick || run.seed <= open::QUICK_SEEDS;
        let [order, survey] = [ORDER_FILE, SURVEY_FILE]
            .map(|(path, text)| Ok::<Points, Error>(Points::new(lab.run_radio(path, text, some)?)));
        let mut sleep = Vec::with_capacity(SLEEP_FILES.len());
        for (path, text) in SLEEP_FILES {
            let some = |run: &RadioSpec| !quick || run.seed <= sleep::QUICK_SEEDS;
            sleep.push(Points::new(lab.run_radio(path, text, some)?));
        }
        let mut all = Reproduced::default();
        claims::add(&fields, &mut all)?;
        survey::add(&survey?, &mut all)?;
        ours::add(&hop, &mut all)?;
        claims::abc(&fields, &mut all)?;
        open::add(&Points::new(open), &mut all)?;
        order::add(&order?, &mut all)?;
        sleep::add(&sleep, &mut all)?;
        points(&fields, &mut all)?;
        figures::add(&fields, &mut all)?;
        all.notes.extend(NOTES.map(str::to_owned));
        Ok(all)
    }
}

/// The runs by field.
struct Fields {
    single: Points,
    chain: Points,
    flows: Points,
    cross: Points,
    grid: Points,
}

/// Adds each point of the figures.
fn points(fields: &Fields, all: &mut Reproduced) -> Result<(), Error> {
    let parts = [
        (Metric::Throughput, "Fig. 1a: throughput over a chain"),
        (Metric::Energy, "Fig. 1b: energy over a chain"),
        (Metric::Efficiency, "Fig. 1c: efficiency over a chain"),
    ];
    for (metric, part) in parts {
        let arms = PAPER.iter().chain(&OWN).chain(&CHAIN);
        let what = Part::new("fig1", part, metric);
        add_points(&fields.chain, &what, arms, all)?;
    }
    let fields = [
        (
            &fields.flows,
            "fig3",
            "Fig. 3: efficiency of several flows over a chain",
        ),
        (&fields.cross, "fig5", "Fig. 5: efficiency on a cross"),
        (
            &fields.grid,
            "fig7",
            "Fig. 7: efficiency on a grid of 5 × 5",
        ),
    ];
    for (points, id, part) in fields {
        let what = Part::new(id, part, Metric::Efficiency);
        add_points(points, &what, PAPER.iter().chain(&OWN), all)?;
    }
    Ok(())
}

/// A part of a figure, with its metric.
struct Part {
    id: &'static str,
    title: &'static str,
    metric: Metric,
}

impl Part {
    fn new(id: &'static str, title: &'static str, metric: Metric) -> Part {
        Part { id, title, metric }
    }
}

fn add_points<'a>(
    points: &Points,
    part: &Part,
    arms: impl Iterator<Item = &'a Arm>,
    all: &mut Reproduced,
) -> Result<(), Error> {
    for arm in arms {
        for at in points.places() {
            all.experiments.push(point(points, part, arm, at)?);
        }
    }
    Ok(())
}

fn point(points: &Points, part: &Part, arm: &Arm, at: Place) -> Result<Experiment, Error> {
    let metric = part.metric;
    let values = points.values(arm.name, at, |run| metric.of(run))?;
    let mut id = format!("ayadi/{}/{}/{}", part.id, metric.name(), arm.name);
    let mut what = format!("{}, {} hops", arm.title, at.hops);
    id.push_str(&format!("/{}-hops", at.hops));
    if at.flows > 1 {
        id.push_str(&format!("/{}-flows", at.flows));
        what.push_str(&format!(", {} flows", at.flows));
    }
    Ok(experiment(id, what, values)
        .part(part.title)
        .unit(metric.unit())
        .setup(SETUP))
}

const NOTES: [&str; 6] = [
    "The paper prints its figures without numbers: a point has no published value; what its text \
     says of the figures is compared above them.",
    "Intervals are 95 % confidence intervals of the mean over ten seeds (Student's t); gains are \
     formed seed by seed.",
    "Efficiency is throughput by energy, as in the paper; of several flows their throughputs are \
     added up, and the energy is that of all nodes until the last flow has ended.",
    "DDA and DAA have the windows of four segments that their authors give them, DAA five times \
     the timeout and two duplicate ACKs. DCA, TDA and hop are told the sender's window in its data; \
     all others have INET's window of 14 segments.",
    "A patient sender takes four times the timeout and two duplicate ACKs, where DAA's takes five \
     times and two.",
    "ABC counts bytes where the senders of the paper count ACKs (RFC 3465, L = 1).",
];

const ABSENT: &str = "its runs are absent";
const SURVEY: &str = "a result of another paper that this one quotes; it was not run";
const CLAIMS: [Claim; 15] = [
    Claim::new(
        "fig1a",
        "Fig. 1a",
        "DCA and TDA are faster than TCP at every hop count",
        &[
            "ayadi/claim/chain/dca-above-tcp",
            "ayadi/claim/chain/tda-above-tcp",
        ],
        ABSENT,
    ),
    Claim::new(
        "fig1a-crossing",
        "Fig. 1a",
        "DCA is faster than TDA from 6 hops on",
        &[
            "ayadi/claim/chain/dca-above-tda-far",
            "ayadi/open/order/ahead-far/",
        ],
        ABSENT,
    ),
    Claim::new(
        "fig1b",
        "Fig. 1b",
        "energy: about 20 % less at 2 hops, about 10 % at 10",
        &["ayadi/claim/chain/energy/"],
        ABSENT,
    ),
    Claim::new(
        "fig1c",
        "Fig. 1c",
        "efficiency: DCA, then TDA, then TCP",
        &["ayadi/claim/chain/efficiency/"],
        ABSENT,
    ),
    Claim::new(
        "fig3",
        "Fig. 3",
        "2, 4, 6 flows: DCA and TDA above TCP, TDA above DCA",
        &["ayadi/claim/flows/"],
        ABSENT,
    ),
    Claim::new(
        "fig5",
        "Fig. 5",
        "cross: DCA and TDA above TCP, more so with 6 flows",
        &["ayadi/claim/cross/"],
        ABSENT,
    ),
    Claim::new(
        "fig7",
        "Fig. 7",
        "grid: DCA best",
        &["ayadi/claim/grid/"],
        ABSENT,
    ),
    Claim::new(
        "conclusion",
        "Conclusion",
        "10 to 20 % of the energy saved",
        &["ayadi/claim/conclusion/energy/"],
        ABSENT,
    ),
    Claim::new(
        "survey-802-11",
        "Survey",
        "on 802.11: TDA up to 205 % more, d = 3 and 4 about 50 %, d = 2 15 to 32 %",
        &["ayadi/claim/tda/one-hop"],
        SURVEY,
    ),
    Claim::new(
        "survey-gerla",
        "Survey",
        "Gerla: beyond 2 hops a window above 1 makes throughput collapse",
        &["ayadi/claim/survey/gerla"],
        SURVEY,
    ),
    Claim::new(
        "survey-fu",
        "Survey",
        "Fu: the best window is a quarter of the hops",
        &["ayadi/claim/survey/fu"],
        SURVEY,
    ),
    Claim::new(
        "survey-vegas",
        "Survey",
        "Xu: Vegas is the fastest TCP over several hops in most cases",
        &["ayadi/claim/survey/throughput/"],
        SURVEY,
    ),
    Claim::new(
        "survey-sack",
        "Survey",
        "Heng: SACK takes the least energy of Tahoe, Reno, NewReno and SACK",
        &["ayadi/claim/survey/energy/"],
        SURVEY,
    ),
    Claim::new(
        "abc",
        "§4",
        "ABC makes delayed ACKs faster, also with more than two segments an ACK",
        &["ayadi/claim/survey/abc/"],
        ABSENT,
    ),
    Claim::new(
        "survey-ackcc",
        "Survey",
        "RFC 5690: ACK congestion control by the sender",
        &["ayadi/claim/survey/rfc5690"],
        "RFC 5690 is simulated over wires (`ack_congestion_control`), and not over radio",
    ),
];

/// Tolerances of the rows; `docs/papers/README.md` prints them.
const TOLERANCES: [Held; 9] = [
    Held::new(
        "Figs. 1a, 1c, 3: places at which one is ahead of another",
        claims::EACH,
        "of 9",
    ),
    Held::new("Fig. 1a: the same, 6 to 10 hops", claims::EACH, "of 5"),
    Held::new("Fig. 5: the same", claims::EACH, "of 8"),
    Held::new("Fig. 1b: energy at 2 hops", claims::saving(2), "%"),
    Held::new("Fig. 1b: energy at 10 hops", claims::saving(10), "%"),
    Held::new(
        "Fig. 1b: more is saved at 2 hops than at 10; Fig. 5: with 6 flows than with 2, at 6 hops than at others",
        claims::MORE,
        "points",
    ),
    Held::new("Conclusion: energy", claims::CONCLUDED, "%"),
    Held::new("one more than another", claims::MORE, "%"),
    Held::new("one less than another", claims::LESS, "%"),
];
