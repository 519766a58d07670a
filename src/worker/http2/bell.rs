//! How `h2` wakes a stream: it writes the stream's token down, and the loop looks at what was written.
//!
//! Runs in the worker, which is one thread: the lock is never waited for.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// Tokens of those that were woken.
#[derive(Default)]
pub(in crate::worker) struct Bell {
    rung: Mutex<Vec<u64>>,
}

/// One stream's rope.
struct Rope {
    bell: Arc<Bell>,
    token: u64,
}

impl Bell {
    pub(super) fn ring(&self, token: u64) {
        if let Ok(mut rung) = self.rung.lock() {
            rung.push(token);
        }
    }

    /// What was woken since.
    pub(in crate::worker) fn take(&self) -> Vec<u64> {
        self.rung.lock().map(|mut rung| std::mem::take(&mut *rung)).unwrap_or_default()
    }

    pub(super) fn waker(self: &Arc<Self>, token: u64) -> Waker {
        Waker::from(Arc::new(Rope { bell: Arc::clone(self), token }))
    }
}

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        self.bell.ring(self.token);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.bell.ring(self.token);
    }
}
