//! `ackwise-lab conform`: judges what touches ACKs.

use std::fs;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_conform::{
    BUILT_IN, Between, BuiltIn, Device, DeviceReport, Document, Error, Level, NOT_RUN, Outcome,
    Place, Router, Schedule, Setup, Spec, by_name, captures_of, cases, chosen, in_virtual_time,
    run,
};
use ackwise_report::parts::{Page, escape};
use anyhow::{Context, bail};

use super::cli::ConformArgs;

/// Runs it.
pub fn conform(args: &ConformArgs, format: Format) -> anyhow::Result<()> {
    if args.list {
        return list(format);
    }
    let schedule = Schedule::new(&chosen(&args.cases)?);
    let asked: Vec<BuiltIn> = if args.all {
        BUILT_IN.to_vec()
    } else {
        args.device
            .iter()
            .map(|name| by_name(name))
            .collect::<Result<_, _>>()?
    };
    let mut document = Document::default();
    let mut unsafe_devices = Vec::new();
    let mut note = |document: &mut Document, report: &DeviceReport| {
        eprintln!("{}: {}", report.name, report.outcome().name());
        if report.outcome() == Outcome::Unsafe {
            unsafe_devices.push(report.name.clone());
        }
        document.add(report);
    };
    for device in &asked {
        match built_in(device, args, &schedule) {
            Ok(report) => note(&mut document, &report),
            Err(error) if args.all => {
                eprintln!("{}: error", device.name);
                document.broken(device.name, error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    for report in given(args, &schedule)? {
        note(&mut document, &report);
    }
    if args.all {
        for (name, why) in NOT_RUN {
            document.not_run(*name, why);
        }
    }
    if document.devices.is_empty() && document.not_run.is_empty() {
        let error = BadInput::new("there is no device to judge")
            .mend("name one: --all, --device, --qdisc, --setup or --between");
        return Err(error.into());
    }
    show(&document, args, format)?;
    if !document.broken.is_empty() {
        let broken: Vec<_> = document.broken.iter().map(|it| it.name.as_str()).collect();
        bail!(
            "{} could not be judged: the report has the error of each",
            broken.join(", ")
        );
    }
    if !args.all && !unsafe_devices.is_empty() {
        bail!("{} fails what it must pass", unsafe_devices.join(", "));
    }
    Ok(())
}

fn built_in(
    device: &BuiltIn,
    args: &ConformArgs,
    schedule: &Schedule,
) -> Result<DeviceReport, Error> {
    match device.place(schedule, args.pcap.as_deref())? {
        Place::Process(report) => Ok(*report),
        Place::Kernel(spec, kernel) => in_virtual_time(
            &spec,
            &args.cases,
            Some(&kernel),
            None,
            args.pcap.as_deref(),
        ),
    }
}

/// The devices that the arguments describe.
fn given(args: &ConformArgs, schedule: &Schedule) -> anyhow::Result<Vec<DeviceReport>> {
    let mut specs = Vec::new();
    if let Some(qdisc) = &args.qdisc {
        specs.push(Spec {
            name: qdisc.clone(),
            setup: Setup::Qdisc(qdisc.clone()),
        });
    }
    if let Some(path) = &args.setup {
        let script = fs::read_to_string(path)
            .map_err(|error| BadInput::new(format!("{}: {error}", path.display())))?;
        specs.push(Spec {
            name: path.display().to_string(),
            setup: Setup::Script(script),
        });
    }
    let mut reports = Vec::new();
    for spec in &specs {
        reports.push(if args.live {
            here(&mut Router::new(spec, false), args, schedule)?
        } else {
            let kernel = args.kernel.as_ref();
            in_virtual_time(spec, &args.cases, kernel, None, args.pcap.as_deref())?
        });
    }
    if let Some([receiver, sender]) = args.between.as_deref() {
        let interfaces = [receiver.clone(), sender.clone()];
        reports.push(here(&mut Between { interfaces }, args, schedule)?);
    }
    Ok(reports)
}

/// On this host's clock.
fn here(
    device: &mut dyn Device,
    args: &ConformArgs,
    schedule: &Schedule,
) -> Result<DeviceReport, Error> {
    let captures = args.pcap.as_deref();
    let captures = captures.map(|it| captures_of(it, &device.name()));
    run(device, schedule, captures.as_deref())
}

fn show(document: &Document, args: &ConformArgs, format: Format) -> anyhow::Result<()> {
    if let Some(path) = &args.html {
        let page = Page {
            title: "ACK conformance",
            lead: "<p class=\"about\">What each device lost, delayed or changed of what RFCs call news.</p>",
            main: &document.html(escape),
            version: env!("CARGO_PKG_VERSION"),
            ..Page::default()
        };
        fs::write(path, page.html()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match format {
        Format::Json => text::print_json(document),
        Format::Text => {
            let right = [false, false, true, true, true, true, true];
            let table = text::columns(&document.rows(), &right);
            text::print(&format!("{table}{}", document.details()))
        }
    }
}

fn list(format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        let devices: Vec<&str> = BUILT_IN.iter().map(|it| it.name).collect();
        let cases: Vec<&str> = cases().iter().map(|it| it.name).collect();
        return text::print_json(&serde_json::json!({ "devices": devices, "cases": cases }));
    }
    let devices = BUILT_IN.iter();
    let devices = devices.map(|it| vec![it.name.to_owned(), it.about.to_owned()]);
    let cases = cases().into_iter().map(|it| {
        let level = match it.level {
            Level::Must => "must",
            Level::Should => "should",
        };
        [it.name, level, it.rfc, it.what]
            .map(str::to_owned)
            .to_vec()
    });
    let devices = text::columns(&devices.collect::<Vec<_>>(), &[]);
    let cases = text::columns(&cases.collect::<Vec<_>>(), &[]);
    text::print(&format!("{devices}\n{cases}"))
}
