//! What this worker asks `files` for, because it would have to wait for a disk itself: who waits, until when, and what comes back.
//! Runs in the worker; reads and opens nothing.
//!
//! One question at a time is asked once, however many clients wait for its answer. There are at most so many at a time, each has
//! one deadline, and a directory that lets deadlines pass is left alone for a while: a disk that hangs must not hold what others
//! could be answered with.

use crate::ipc::auth::Verdict;
use crate::ipc::disk::{Act, Outcome, Reply, Request};
use crate::ipc::messages::Message;
use crate::ipc::{Channel, Received};
use crate::site::plan::Answer;
use crate::sys::file::Opened;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What is asked of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) root: u16,
    pub(super) path: Box<[u8]>,
    pub(super) act: Act,
}

/// What becomes of a question.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// With the files that came with it.
    Answer(Outcome, Vec<Opened>),
    /// `auth` has said this.
    Verdict(Verdict),
    /// No answer came in time.
    Late,
}

/// What came of looking up.
pub(super) enum Looked {
    Found(Answer<Opened>),
    /// The answer comes from `files`, under this number.
    Waits(u32),
    /// No disk answers; the reason is in the log.
    Unavailable,
}

/// How the next part of a file comes into memory.
pub(super) enum Ahead {
    /// `files` reads it, and answers under this number.
    Waits(u32),
    /// It has to be sent as it is, with the wait that this may mean.
    Direct,
    /// No disk answers; the reason is in the log.
    Unavailable,
}

/// Why a question is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// As many wait as may.
    Full,
    /// The directory did not answer lately.
    Trouble,
}

impl Refusal {
    pub(super) fn why(self) -> &'static str {
        match self {
            Refusal::Full => "too many requests wait for a disk",
            Refusal::Trouble => "the disk did not answer lately",
        }
    }
}

/// What came over the channel.
pub(super) enum Came {
    Nothing,
    /// The answer to a question, and the connections that wait for it.
    Answer {
        id: u32,
        waiting: Vec<u64>,
        told: Told,
    },
    /// To a question that nobody waits for any more.
    Stale,
    /// What no `files` may send.
    Malformed,
    Ended,
}

/// The questions of a worker.
pub(super) struct Disk {
    channel: Option<Channel>,
    /// The connection that is driven, by its token.
    pub(super) asker: u64,
    asked: HashMap<u32, Asked>,
    /// The same by what is asked.
    known: HashMap<Question, u32>,
    /// Those that the channel did not take yet.
    unsent: VecDeque<u32>,
    last: u32,
    limit: usize,
    /// Of the directories that did not answer, by number.
    troubles: HashMap<u16, Trouble>,
    /// When the last answer came, in monotonic milliseconds.
    answered: u64,
    /// Room for one answer.
    buffer: Vec<u8>,
}

struct Asked {
    question: Question,
    since: u64,
    /// Connections, by their tokens.
    waiting: Vec<u64>,
    tries: u8,
}

#[derive(Clone, Copy)]
struct Trouble {
    /// Until then nothing is asked of it; after that, one question.
    until: u64,
    pause: u64,
}

impl Disk {
    pub(super) fn new(channel: Option<Channel>, limit: usize) -> Disk {
        Disk {
            channel,
            asker: 0,
            asked: HashMap::new(),
            known: HashMap::new(),
            unsent: VecDeque::new(),
            last: 0,
            limit,
            troubles: HashMap::new(),
            answered: 0,
            buffer: vec![0; Reply::LENGTH_MAX + 1],
        }
    }

    /// To wait for answers on.
    pub(super) fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(AsFd::as_fd)
    }

    /// Asks for the connection that is driven; the number that the answer comes under, within [`PATIENCE_MS`] or not at all.
    ///
    /// # Errors
    /// Why it is not asked.
    pub(super) fn ask(&mut self, question: Question, now: u64) -> Result<u32, Refusal> {
        if let Some(id) = self.known.get(&question)
            && let Some(asked) = self.asked.get_mut(id).filter(|asked| now < asked.since + PATIENCE_MS)
        {
            asked.waiting.push(self.asker);
            return Ok(*id);
        }
        if self.asked.len() >= self.limit {
            self.asked.retain(|_, asked| now < asked.since + PATIENCE_MS);
            let asked = &self.asked;
            self.known.retain(|_, id| asked.contains_key(id));
        }
        if self.channel.is_none() || self.asked.len() >= self.limit {
            return Err(Refusal::Full);
        }
        if let Some(trouble) = self.troubles.get_mut(&question.root) {
            if now < trouble.until {
                return Err(Refusal::Trouble);
            }
            // This one tries whether it is over.
            trouble.until = now + PATIENCE_MS;
        }
        self.last = self.last.wrapping_add(1);
        self.known.insert(question.clone(), self.last);
        self.asked.insert(self.last, Asked { question, since: now, waiting: vec![self.asker], tries: 0 });
        self.unsent.push_back(self.last);
        self.send(now);
        Ok(self.last)
    }

    /// Whether nothing came for a while although something is waited for: all `files` may hang, and what is not needed is not asked for.
    pub(super) fn is_silent(&self, now: u64) -> bool {
        // What is overdue is answered by nobody, also where `files` are well again.
        let awaited = |asked: &&Asked| now < asked.since + PATIENCE_MS;
        self.asked.values().filter(awaited).any(|asked| now >= asked.since + BESIDE_MS && self.answered <= asked.since)
    }

    /// Sends what waits, as much as the channel takes; the rest follows when answers come.
    fn send(&mut self, now: u64) {
        let Some(channel) = &self.channel else { return };
        while let Some(id) = self.unsent.front() {
            if let Some(asked) = self.asked.get_mut(id).filter(|asked| now < asked.since + PATIENCE_MS) {
                let Question { root, path, act } = &asked.question;
                let request = Request { id: *id, deadline: asked.since + PATIENCE_MS, root: *root, path: path.to_vec(), act: *act };
                match channel.send(&request, &[]) {
                    Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return,
                    // The other side is gone; so will be this process.
                    Ok(()) | Err(_) => asked.tries += 1,
                }
            }
            self.unsent.pop_front();
        }
    }

    /// A new `files` serves: what another may have taken and lost is asked again, once.
    pub(super) fn ask_again(&mut self, now: u64) {
        let mut lost: Vec<u32> = self.asked.iter().filter(|(_, asked)| asked.tries == 1).map(|(id, _)| *id).collect();
        lost.sort_unstable();
        self.unsent.extend(lost);
        self.send(now);
    }

    /// Takes one answer.
    pub(super) fn receive(&mut self, now: u64) -> Came {
        let Some(channel) = &self.channel else { return Came::Nothing };
        match channel.receive_from_broker::<Reply>(&mut self.buffer) {
            Received::Message(reply, descriptors) => {
                self.answered = now;
                self.send(now);
                let Some(asked) = self.asked.get(&reply.id) else { return Came::Stale };
                if !fits(asked.question.act, &reply.outcome) {
                    return Came::Malformed;
                }
                let opened = reply.outcome.files().into_iter().zip(descriptors);
                let opened = opened.map(|(stat, file)| Opened { file: file.into(), stat }).collect();
                self.forget(reply.id).map_or(Came::Stale, |asked| {
                    self.troubles.remove(&asked.question.root);
                    Came::Answer { id: reply.id, waiting: asked.waiting, told: Told::Answer(reply.outcome, opened) }
                })
            }
            Received::Nothing => Came::Nothing,
            Received::Malformed => Came::Malformed,
            Received::Ended => {
                self.channel = None;
                Came::Ended
            }
        }
    }

    /// The deadline of a connection has passed without an answer.
    pub(super) fn give_up(&mut self, id: u32, now: u64) {
        let is_oldest = self.asked.keys().min() == Some(&id);
        // It was not the first that this request had to wait for: others may still have time for it.
        if self.asked.get(&id).is_some_and(|asked| now < asked.since + PATIENCE_MS) {
            return;
        }
        let Some(asked) = self.forget(id) else { return };
        // Where no answer came at all, other questions may be what everyone waits for: only the first in the row tells of its disk.
        if self.answered > asked.since || is_oldest {
            let pause = self.troubles.get(&asked.question.root).map_or(PAUSE_MIN_MS, |trouble| (trouble.pause * 2).min(PAUSE_MAX_MS));
            self.troubles.insert(asked.question.root, Trouble { until: now + pause, pause });
        }
    }

    fn forget(&mut self, id: u32) -> Option<Asked> {
        let asked = self.asked.remove(&id)?;
        if self.known.get(&asked.question) == Some(&id) {
            self.known.remove(&asked.question);
        }
        Some(asked)
    }
}

/// Whether this can be the answer to that.
fn fits(act: Act, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed { .. } => true,
        Outcome::File(_)
        | Outcome::Directory
        | Outcome::Missing
        | Outcome::Denied { .. }
        | Outcome::Unfollowed { .. }
        | Outcome::NotRegular
        | Outcome::Busy => act == Act::Open,
        Outcome::Warm => matches!(act, Act::Warm { .. }),
        Outcome::Changed => matches!(act, Act::Warm { .. } | Act::List { .. }),
        Outcome::Entries(_) => matches!(act, Act::List { .. }),
        Outcome::Beside(_) => act == Act::Beside,
    }
}

/// How long a request waits for a disk, however often, before it is answered with 503.
pub(super) const PATIENCE_MS: u64 = 5_000;

/// How long a file that is at hand is held back for what may stand beside it: a mount that does not answer may hold all `files` for some
/// seconds, and its file is on another.
pub(super) const BESIDE_MS: u64 = 300;

/// What is said then.
pub(super) const LATE: &str = "the disk did not answer in 5 s";

/// Questions of one worker at a time.
pub(super) const LIMIT: usize = 256;

/// How long a directory that did not answer is left alone: the first time, and at most.
const PAUSE_MIN_MS: u64 = 5_000;
const PAUSE_MAX_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::entries::Entries;

    fn pair(limit: usize) -> (Disk, Channel) {
        let (worker, files) = Channel::pair().unwrap();
        (Disk::new(Some(worker), limit), files)
    }

    fn question(root: u16, path: &str) -> Question {
        Question { root, path: path.as_bytes().into(), act: Act::Open }
    }

    fn take(files: &Channel) -> Option<Request> {
        match files.receive_long::<Request>(&mut [0; 8192]) {
            Received::Message(request, _) => Some(request),
            Received::Nothing => None,
            other @ (Received::Ended | Received::Malformed) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_many_wait_for_is_asked_once_and_each_is_told() {
        let (mut disk, files) = pair(8);
        disk.asker = 1;
        let id = disk.ask(question(0, "a"), 0).unwrap();
        disk.asker = 2;
        assert_eq!(disk.ask(question(0, "a"), 4_999), Ok(id));
        let request = take(&files).unwrap();
        assert_eq!((request.id, request.deadline, request.path.as_slice()), (id, 5_000, b"a".as_slice()));
        assert_eq!(take(&files), None);
        files.send(&Reply { id, outcome: Outcome::Missing }, &[]).unwrap();
        let Came::Answer { waiting, told: Told::Answer(Outcome::Missing, _), .. } = disk.receive(5) else { panic!() };
        assert_eq!(waiting, [1, 2]);
        files.send(&Reply { id, outcome: Outcome::Missing }, &[]).unwrap();
        assert!(matches!(disk.receive(5), Came::Stale));
        assert!(matches!(disk.receive(5), Came::Nothing));
    }

    #[test]
    fn one_beyond_the_limit_is_refused_until_deadlines_pass() {
        let (mut disk, _files) = pair(3);
        for path in ["a", "b", "c"] {
            disk.ask(question(0, path), 0).unwrap();
        }
        assert_eq!(disk.ask(question(0, "d"), 4_999), Err(Refusal::Full));
        disk.ask(question(0, "d"), 5_000).unwrap();
    }

    #[test]
    fn a_directory_that_does_not_answer_is_left_alone_ever_longer_and_another_is_not() {
        let (mut disk, files) = pair(8);
        let mut now = 0;
        for pause in [5_000, 10_000, 20_000, 40_000, 60_000, 60_000] {
            let id = disk.ask(question(0, "a"), now).unwrap();
            now += PATIENCE_MS;
            disk.answered = now;
            disk.give_up(id, now);
            assert_eq!(disk.ask(question(0, "b"), now + pause - 1), Err(Refusal::Trouble));
            disk.ask(question(1, "b"), now).unwrap();
            now += pause;
        }
        let id = disk.ask(question(0, "a"), now).unwrap();
        assert_eq!(disk.ask(question(0, "c"), now), Err(Refusal::Trouble), "one tries");
        files.send(&Reply { id, outcome: Outcome::Directory }, &[]).unwrap();
        assert!(matches!(disk.receive(now), Came::Answer { .. }));
        disk.ask(question(0, "c"), now).unwrap();
    }

    #[test]
    fn nothing_is_said_to_be_silent_that_answers() {
        let (mut disk, files) = pair(8);
        let first = disk.ask(question(0, "a"), 1_000).unwrap();
        assert!(!disk.is_silent(1_000 + BESIDE_MS - 1));
        assert!(disk.is_silent(1_000 + BESIDE_MS));
        disk.ask(question(0, "b"), 1_200).unwrap();
        files.send(&Reply { id: first, outcome: Outcome::Missing }, &[]).unwrap();
        assert!(matches!(disk.receive(1_350), Came::Answer { .. }));
        assert!(!disk.is_silent(9_000), "another waits for a slower disk");
    }

    #[test]
    fn what_a_process_took_and_lost_is_asked_again_once() {
        let (mut disk, files) = pair(8);
        let id = disk.ask(question(0, "a"), 0).unwrap();
        take(&files).unwrap();
        disk.ask_again(1);
        assert_eq!(take(&files).unwrap().id, id);
        disk.ask_again(2);
        assert_eq!(take(&files), None);
    }

    #[test]
    fn answers_that_do_not_fit_the_question_are_malformed() {
        let stat = crate::sys::file::Stat { device: 0, inode: 0, size: 0, modified: 0, modified_ns: 0, changed: 0, changed_ns: 0 };
        for (act, outcome) in [
            (Act::Open, Outcome::Warm),
            (Act::Open, Outcome::Changed),
            (Act::Open, Outcome::File(stat)),
            (Act::Open, Outcome::Beside(Box::new([None; 3]))),
            (Act::Open, Outcome::Entries(Entries::new(None, []))),
            (Act::List { from: None }, Outcome::Missing),
            (Act::List { from: None }, Outcome::Warm),
            (Act::Beside, Outcome::File(stat)),
            (Act::Beside, Outcome::Beside(Box::new([None, Some(stat), None]))),
            (Act::Beside, Outcome::Changed),
            (Act::Warm { device: 0, inode: 0, offset: 0, length: 1 }, Outcome::Missing),
            (Act::Warm { device: 0, inode: 0, offset: 0, length: 1 }, Outcome::File(stat)),
        ] {
            let (mut disk, files) = pair(8);
            let id = disk.ask(Question { act, ..question(0, "a") }, 0).unwrap();
            files.send(&Reply { id, outcome: outcome.clone() }, &[]).unwrap();
            assert!(matches!(disk.receive(0), Came::Malformed), "{act:?} {outcome:?}");
        }
    }
}
