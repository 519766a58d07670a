//! What workers count, by name; how a worker reports it to the parent, and how it is shown.

use std::fmt::Write as _;

/// One thing that is counted over all workers since the service started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    Accepted,
    Requests,
    BytesSent,
    Success,
    Redirection,
    ClientError,
    ServerError,
    Refused,
    TimedOut,
    LimitHit,
    LinesLost,
    ClientConnections,
    Penalised,
    Uncounted,
    TooManyRequests,
}

/// How many connections are in a state now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    Reading,
    Writing,
    Idle,
}

/// Everything that is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub counters: [u64; Counter::ALL.len()],
    pub gauges: [u64; Gauge::ALL.len()],
}

impl Counter {
    pub const ALL: [Counter; 15] = [
        Counter::Accepted,
        Counter::Requests,
        Counter::BytesSent,
        Counter::Success,
        Counter::Redirection,
        Counter::ClientError,
        Counter::ServerError,
        Counter::Refused,
        Counter::TimedOut,
        Counter::LimitHit,
        Counter::LinesLost,
        Counter::ClientConnections,
        Counter::Penalised,
        Counter::Uncounted,
        Counter::TooManyRequests,
    ];

    /// The name in `status --json`, which with a prefix is the one in Prometheus' text format.
    pub const fn name(self) -> &'static str {
        match self {
            Counter::Accepted => "connections_accepted",
            Counter::Requests => "requests",
            Counter::BytesSent => "body_bytes_sent",
            Counter::Success => "responses_2xx",
            Counter::Redirection => "responses_3xx",
            Counter::ClientError => "responses_4xx",
            Counter::ServerError => "responses_5xx",
            Counter::Refused => "requests_refused",
            Counter::TimedOut => "connections_timed_out",
            Counter::LimitHit => "connection_limit_hits",
            Counter::LinesLost => "log_lines_lost",
            Counter::ClientConnections => "client_connection_limit_hits",
            Counter::Penalised => "penalty_refusals",
            Counter::Uncounted => "clients_uncounted",
            Counter::TooManyRequests => "request_limit_hits",
        }
    }

    /// What it says, for people.
    pub const fn help(self) -> &'static str {
        match self {
            Counter::Accepted => "Connections accepted",
            Counter::Requests => "Requests answered",
            Counter::BytesSent => "Bytes of response bodies sent",
            Counter::Success => "Responses of class 2xx",
            Counter::Redirection => "Responses of class 3xx",
            Counter::ClientError => "Responses of class 4xx",
            Counter::ServerError => "Responses of class 5xx",
            Counter::Refused => "Bytes that were no acceptable request",
            Counter::TimedOut => "Connections that ran into a time-out",
            Counter::LimitHit => "Times the connection limit was reached",
            Counter::LinesLost => "Log lines dropped because log was behind",
            Counter::ClientConnections => "Connections closed because their client had too many",
            Counter::Penalised => "Refused because a request of the client ended a worker",
            Counter::Uncounted => "Let in without a limit because the table of clients was full",
            Counter::TooManyRequests => "Requests answered 429 because their client sent too many",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

impl Gauge {
    pub const ALL: [Gauge; 3] = [Gauge::Reading, Gauge::Writing, Gauge::Idle];

    pub const fn name(self) -> &'static str {
        match self {
            Gauge::Reading => "reading",
            Gauge::Writing => "writing",
            Gauge::Idle => "idle",
        }
    }
}

impl Totals {
    pub fn add(&mut self, counter: Counter, value: u64) {
        if let Some(total) = self.counters.get_mut(counter.index()) {
            *total = total.saturating_add(value);
        }
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.counters.get(counter.index()).copied().unwrap_or(0)
    }

    /// For people, a line each.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let connections: Vec<String> =
            Gauge::ALL.iter().zip(self.gauges).map(|(gauge, value)| format!("{value} {}", gauge.name())).collect();
        let _ = write!(text, "connections now: {}", connections.join(", "));
        for counter in Counter::ALL {
            let _ = write!(text, "\n{}: {}", counter.help(), self.get(counter));
        }
        text
    }

    /// The members of a JSON object, without its braces.
    pub fn json_members(&self) -> String {
        let gauges = Gauge::ALL.iter().zip(self.gauges).map(|(gauge, value)| format!("\"connections_{}\":{value}", gauge.name()));
        let counters = Counter::ALL.iter().map(|counter| format!("\"{}\":{}", counter.name(), self.get(*counter)));
        gauges.chain(counters).collect::<Vec<_>>().join(",")
    }

    /// Prometheus' text exposition format, version 0.0.4.
    pub fn prometheus(&self) -> String {
        let mut text = "# HELP anchorite_connections Connections now, by state\n# TYPE anchorite_connections gauge\n".to_owned();
        for (gauge, value) in Gauge::ALL.iter().zip(self.gauges) {
            let _ = writeln!(text, "anchorite_connections{{state=\"{}\"}} {value}", gauge.name());
        }
        for counter in Counter::ALL {
            let (name, help) = (counter.name(), counter.help());
            let _ = writeln!(
                text,
                "# HELP anchorite_{name}_total {help}\n# TYPE anchorite_{name}_total counter\nanchorite_{name}_total {}",
                self.get(counter)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_own_place_and_name() {
        let mut totals = Totals::default();
        for (value, counter) in (1..).zip(Counter::ALL) {
            totals.add(counter, value);
        }
        assert_eq!(totals.counters.to_vec(), (1..=15).collect::<Vec<u64>>());
        let names: std::collections::BTreeSet<&str> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
        assert!(totals.prometheus().contains("\nanchorite_requests_total 2\n"));
        assert!(totals.json_members().contains("\"requests\":2,"));
        assert!(totals.text().contains("behind: 11\n"));
    }
}
