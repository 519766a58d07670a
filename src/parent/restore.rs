//! The way back from a replacement in place that failed: the old program, executed anew, is as it was before. It reads
//! neither the configuration nor a log's name nor a directory again, since what has changed there may be the reason.

use super::child::Nursery;
use super::control::Control;
use super::generation::{Generation, Phase};
use super::legacy::{Found, Inherited, LeftGeneration, Legacy, Rest};
use super::listen::Listener;
use super::prepare::Source;
use super::report::announce;
use super::start::drop_privilege;
use super::supervise::Supervisor;
use crate::config::{self, Level};
use crate::ipc::lines;
use crate::sys::kept::copy;
use crate::sys::manager::Manager;
use crate::sys::pid_file::PidFile;
use crate::sys::process::{self, Executable};
use crate::sys::signal::Signals;
use crate::sys::{clock, kernel_log, panic, socket, title};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Goes on as before the program was replaced by one that failed for the reason `why`; the exit status in the end.
pub fn go_on(resume: i32, why: &str) -> u8 {
    panic::install(|text| lines::error_line(Level::Error, "parent", text.as_bytes()));
    match restore(resume, why) {
        Ok(supervisor) => supervisor.supervise(),
        Err(why) => {
            announce(&why);
            1
        }
    }
}

/// Goes on where this program was when it made way for another, which failed for the reason `why`.
///
/// # Errors
/// What cannot be taken up again.
fn restore(resume: i32, why: &str) -> Result<Supervisor, String> {
    let legacy = Legacy::read(resume)?;
    let rest: Rest = config::decode(&legacy.rest).map_err(|fault| format!("resume: {fault}"))?;
    let signals = Signals::block().map_err(|fault| format!("signals: {fault}"))?;
    process::set_umask();
    let Inherited { listeners, children, generation: next, counters, control, kernel_log, logs } = legacy.take()?;
    let manager = Manager::of(&rest.environment).unwrap_or_default();
    let kernel_log = kernel_log.map_or_else(kernel_log::open_at_end, Ok);
    let null = socket::null().map_err(|fault| format!("/dev/null: {fault}"))?;
    let executable = Executable::from(copy(legacy.executable)?);
    clock::load_zone();
    title::clear_environment();
    title::set_short("anchorite");
    let allow_missing = rest.generations.first().map(|generation| generation.cells.allow_missing.clone()).unwrap_or_default();
    drop_privilege(rest.identity, &allow_missing, Some(legacy.filter))?;
    let nursery = Nursery { executable, null, counters, kernel_log, user_namespace: rest.identity.rootless };
    let source = Source {
        file: Some(rest.file.into()),
        program: PathBuf::from(&legacy.program),
        identity: rest.identity,
        fixed: legacy.fixed.clone(),
        watched: rest.watched,
        again: None,
    };
    let control = rest.control_socket.zip(control).map(|(path, listener)| Control::inherit(Path::new(&path), listener));
    let mut supervisor = Supervisor::new(nursery, source, signals, control.unwrap_or_default(), manager, logs)?;
    supervisor.next_generation = next;
    (supervisor.restarts, supervisor.lost_lines) = (rest.restarts, rest.lost_lines);
    let mut children: Vec<Option<Found>> = children.into_iter().map(Some).collect();
    for left in rest.generations {
        let keys = left.keys.iter().filter_map(|place| legacy.keys.get(*place)).map(|number| Ok(Rc::new(copy(*number)?)));
        let keys = keys.collect::<Result<_, String>>()?;
        let mut generation = generation(left, &listeners, &mut children);
        Rc::make_mut(&mut generation.cells).take_files(keys);
        supervisor.take_up(generation).map_err(|fault| format!("epoll: {fault}"))?;
    }
    supervisor.pid_file = rest.pid_file.map(|path| PidFile::keep(Path::new(&path)));
    supervisor.started = true;
    title::set(&rest.title);
    supervisor.settle(legacy, resume);
    supervisor.logs.report.line(Level::Error, &format!("upgrade: {why}; the running program goes on"));
    supervisor.tell_manager();
    Ok(supervisor)
}

/// A generation as it was; a process that had just ended or was being started is started again.
fn generation(left: LeftGeneration, listeners: &[Rc<Listener>], children: &mut [Option<Found>]) -> Generation {
    let mut slots = left.places();
    for (slot, (_, _, child)) in slots.iter_mut().zip(&left.slots) {
        match child.and_then(|place| children.get_mut(place)?.take()) {
            Some(Found { child, log_number, ends, .. }) => {
                slot.ends = ends;
                slot.child = Some(child);
                slot.log_number = log_number;
            }
            None if left.draining.is_none() => slot.next_start = Some(0),
            None => {}
        }
    }
    Generation {
        number: left.number,
        cells: Rc::new(left.cells),
        listeners: left.listeners.iter().filter_map(|place| listeners.get(*place).cloned()).collect(),
        slots,
        phase: left.draining.map_or(Phase::Serving, Phase::Draining),
        drain_ms: left.drain_ms,
    }
}
