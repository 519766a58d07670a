//! A connection over TLS: what its handshake has brought, and how it fails.
//!
//! Runs in the worker, as a part of [`Connection`].

use super::{Connection, Fate};
use crate::proto::status::{Reject, Status};
use crate::site::facts::Scheme;
use crate::worker::answer::Service;
use crate::worker::tls::link::News;
use std::rc::Rc;

impl Connection {
    /// Notes what is known of TLS, once there is content or the end.
    pub(super) fn note_tls(&mut self, service: &mut Service) {
        if self.visit.tls.is_none()
            && let Some(secured) = self.transport.secured()
        {
            self.visit.tls = Some(Rc::clone(secured));
            if let Some(news) = self.transport.take_news() {
                service.tell_of_handshake(&self.visit, &news);
            }
        }
    }

    /// It cannot go on. Who speaks HTTP where TLS is spoken is told so in HTTP.
    pub(super) fn fail_over_tls(&mut self, service: &mut Service) -> Fate {
        let Some(news) = self.transport.take_news() else { return Fate::Close };
        service.tell_of_handshake(&self.visit, &news);
        match news {
            News::Plain => self.answer_plainly(service),
            News::Unknown(_) | News::Failed(_) => Fate::Close,
        }
    }

    fn answer_plainly(&mut self, service: &mut Service) -> Fate {
        let line = self.transport.give_up_tls();
        self.visit.scheme = Scheme::Http;
        let reject = Reject { status: Status::BAD_REQUEST, why: "HTTP where clients speak TLS" };
        service.reject(&self.visit(), &reject, crate::proto::head::first_line(&line));
        self.closing = true;
        self.unread = true;
        match self.send_made(service) {
            Ok(super::Progress::Stopped(fate)) => fate,
            Ok(super::Progress::NeedsMore) => Fate::Again,
            Err(_) => Fate::Close,
        }
    }
}
