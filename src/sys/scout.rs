//! A process that goes ahead and looks at what may keep whoever looks: a file system whose server does not answer keeps it for ever, and
//! no signal ends that. Used by the parent before it looks itself, and by commands.

use super::errand::Errand;
use super::{clock, proc};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Has another process look, which says of each path that it looks at it now. The path that kept it for [`STEP_MS`], or at which it was
/// when `WHOLE_MS` were over; it may hang there from now on. `None`: it came to its end, or could not be sent.
pub fn stays_at(look: impl FnOnce(&mut dyn FnMut(&Path))) -> Option<PathBuf> {
    let begun = Errand::begin(|mut pipe| look(&mut |path| drop(pipe.write_all(&[path.as_os_str().as_bytes(), b"\0"].concat()))));
    let mut errand = begun.ok()?;
    let stays = follow(&mut errand);
    errand.end();
    stays
}

/// Has another process read a file and look where the paths lead that it names.
///
/// # Errors
/// Names what did not answer.
pub fn look_ahead(file: &Path, named: impl FnOnce() -> BTreeSet<PathBuf>) -> Result<(), String> {
    let stays = stays_at(|tell| {
        tell(file);
        for path in named() {
            tell(&path);
            let _ = std::fs::canonicalize(&path).map(|real| proc::inode(&real));
        }
    });
    stays.map_or(Ok(()), |path| Err(format!("\"{}\": its file system does not answer", path.display())))
}

fn follow(errand: &mut Errand) -> Option<PathBuf> {
    let begun = clock::monotonic_ms();
    let (mut said, mut heard) = (Vec::new(), begun);
    loop {
        let mut piece = [0; 4096];
        match errand.hear(&mut piece, (heard + STEP_MS).min(begun + WHOLE_MS)) {
            Ok(None) => {
                let last = said.split(|byte| *byte == 0).rfind(|path| !path.is_empty()).unwrap_or_default();
                return Some(PathBuf::from(OsStr::from_bytes(last)));
            }
            Ok(Some(0)) | Err(_) => return None,
            Ok(Some(length)) => {
                heard = clock::monotonic_ms();
                // Of what came before, only what is not whole yet matters.
                let whole = said.iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
                said.drain(..whole);
                said.extend_from_slice(piece.get(..length).unwrap_or_default());
            }
        }
    }
}

/// How long looking at one path may take, in milliseconds: a disk that has to start turning takes seconds.
pub const STEP_MS: u64 = 5_000;

/// And at all of them.
const WHOLE_MS: u64 = 15_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_to_the_end_stays_nowhere() {
        assert_eq!(stays_at(|_| {}), None);
        let many: Vec<PathBuf> = (0..3000).map(|number| PathBuf::from(format!("/none/{number}"))).collect();
        assert_eq!(stays_at(|tell| many.iter().for_each(|path| tell(path))), None);
        assert_eq!(stays_at(|_| panic!("its output goes nowhere")), None);
    }

    #[test]
    fn who_does_not_is_where_it_said_last() {
        let stay = || std::thread::sleep(std::time::Duration::from_secs(600));
        for before in [1, 1000] {
            let stays = stays_at(|tell| {
                (0..before).for_each(|number| tell(Path::new(&format!("/before/{number}"))));
                tell(Path::new("/here"));
                stay();
            });
            assert_eq!(stays, Some("/here".into()));
        }
    }
}
