//! Which MAC and which AODV give which order of DCA and TDA.

use super::claims::{EACH, claim, saving, sign};
use super::points::{Metric, Place, Points};
use super::{Arm, DELAYED};
use crate::{Error, Reproduced};

/// Settings: the name in the file, and a description.
const SETTINGS: [(&str, &str); 5] = [
    ("standard", "IEEE 802.15.4's defaults"),
    ("inetmanet", "INETMANET's MAC of 2011"),
    (
        "inetmanet-setup",
        "the same, 1.08 ms of radio set-up before each channel assessment",
    ),
    (
        "inetmanet-hellos",
        "INETMANET's MAC; hellos, local repair, no link feedback",
    ),
    (
        "figures-hellos",
        "the MAC of the figures; hellos, local repair, no link feedback",
    ),
];

pub(super) fn add(points: &Points, all: &mut Reproduced) -> Result<(), Error> {
    let near: Vec<Place> = (2..=5).map(|hops| Place::new(hops, 1)).collect();
    let far: Vec<Place> = (6..=10).map(|hops| Place::new(hops, 1)).collect();
    let everywhere: Vec<Place> = near.iter().chain(&far).copied().collect();
    for (setting, words) in SETTINGS {
        let part = format!("Left open: DCA and TDA with {words}");
        let [tcp, dca, tda] = ["tcp", "dca", "tda"].map(|arm| format!("{setting}/{arm}"));
        let row = |id: &str, what: &str, unit: &str, values| {
            let id = format!("{id}/{setting}");
            let mut row = claim(&part, id, what.to_owned(), unit, values);
            row.id = row.id.replace("ayadi/claim/", "ayadi/open/order/");
            row.setup("sim; the chain of Fig. 1, means of ten seeds")
                .variant()
        };
        for (id, what, published, metric, places) in [
            (
                "near",
                "throughput of DCA against TDA, 2 to 5 hops",
                "less",
                Metric::Throughput,
                &near,
            ),
            (
                "far",
                "throughput of DCA against TDA, 6 to 10 hops",
                "more",
                Metric::Throughput,
                &far,
            ),
            (
                "efficiency",
                "efficiency of DCA against TDA, 2 to 10 hops",
                "more",
                Metric::Efficiency,
                &everywhere,
            ),
        ] {
            let gains = points.mean_gains(&dca, &tda, places, metric)?;
            let row = row(id, what, "%", gains);
            all.experiments
                .push(row.published(published).tolerance(sign(published)));
        }
        let wins = points.wins(&dca, &tda, &far, Metric::Throughput)?;
        let what = "hop counts from 6 to 10 at which DCA is faster than TDA";
        let row_of_wins = row("ahead-far", what, "of 5", wins);
        all.experiments
            .push(row_of_wins.published(5.0).tolerance(EACH));
        for (hops, published) in [(2, -20.0), (10, -10.0)] {
            for Arm { name, title } in &DELAYED {
                let arm = format!("{setting}/{name}");
                let gains = points.gains(&arm, &tcp, Place::new(hops, 1), Metric::Energy)?;
                let what = format!("energy, {title} against TCP with d = 1, {hops} hops");
                let row = row(&format!("energy/{name}/{hops}-hops"), &what, "%", gains);
                all.experiments
                    .push(row.published(published).tolerance(saving(hops)));
            }
        }
    }
    Ok(())
}
