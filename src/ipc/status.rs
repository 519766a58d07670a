//! What `anchorite status` shows: made by the parent of what it knows itself and of the counters of a worker that answers.

use super::counters::Totals;

/// The state of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub parent: i32,
    /// Processes that were replaced after they died, and log lines that were lost.
    pub restarts: u32,
    pub lost_lines: u64,
    pub generations: Vec<GenerationStatus>,
    /// `None`: no worker answered.
    pub totals: Option<Totals>,
}

/// The workers of one reading of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationStatus {
    pub number: u32,
    /// "starting", "serving" or "draining"
    pub state: &'static str,
    pub workers: Vec<i32>,
    pub addresses: Vec<String>,
    /// Those of them that the service manager handed over.
    pub handed_over: Vec<String>,
    /// Certificates that are about to expire.
    pub warnings: Vec<String>,
}

impl Status {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("parent {}, {} restarts, {} log lines lost\n", self.parent, self.restarts, self.lost_lines);
        for GenerationStatus { number, state, workers, addresses, warnings, .. } in &self.generations {
            // One that drains listens no more.
            let listening = if addresses.is_empty() { String::new() } else { format!(", listening on {}", addresses.join(" ")) };
            text.push_str(&format!("generation {number} {state}: workers {}{listening}\n", joined(workers, " ")));
            warnings.iter().for_each(|warning| text.push_str(&format!("warning: {warning}\n")));
        }
        text + &self.totals.as_ref().map_or_else(|| "no worker answered".to_owned(), Totals::text)
    }

    /// For machines: a JSON object.
    pub fn json(&self) -> String {
        let generations: Vec<String> = self.generations.iter().map(GenerationStatus::json).collect();
        let counters = self.totals.as_ref().map_or_else(String::new, |totals| format!(",{}", totals.json_members()));
        format!(
            "{{\"pid\":{},\"restarts\":{},\"log_lines_unwritten\":{},\"generations\":[{}]{counters}}}",
            self.parent,
            self.restarts,
            self.lost_lines,
            generations.join(",")
        )
    }
}

impl GenerationStatus {
    fn json(&self) -> String {
        let GenerationStatus { number, state, workers, addresses, handed_over, warnings } = self;
        let list = |addresses: &[String]| addresses.iter().map(|address| quoted(address)).collect::<Vec<String>>().join(",");
        let (workers, addresses, handed_over, warnings) = (joined(workers, ","), list(addresses), list(handed_over), list(warnings));
        format!(
            "{{\"generation\":{number},\"state\":\"{state}\",{HANDED_OVER}{handed_over}],\"workers\":[{workers}],\"listen\":[{addresses}],\"warnings\":[{warnings}]}}"
        )
    }
}

/// Whether a status as JSON says that this address was handed over.
pub fn is_handed_over(json: &str, address: &str) -> bool {
    handed_over(json).contains(&quoted(address).as_str())
}

/// The addresses that were handed over, as they stand in a status as JSON: each a [`quoted`] text.
pub fn handed_over(json: &str) -> Vec<&str> {
    let lists = json.split(HANDED_OVER).skip(1).filter_map(|rest| rest.split("],\"").next());
    let mut found = Vec::new();
    for list in lists {
        // A quotation mark with a backslash before it is within a text.
        let marks = list.match_indices('"').map(|(at, _)| at).filter(|at| !list[..*at].ends_with('\\'));
        let marks: Vec<usize> = marks.collect();
        found.extend(marks.chunks_exact(2).filter_map(|pair| list.get(pair[0]..=pair[1])));
    }
    found
}

/// What `check --open` is told of such an address beside the address itself, in one word with it.
pub const OF_THE_MANAGER: &str = "manager:";

const HANDED_OVER: &str = "\"handed_over\":[";

fn joined(pids: &[i32], between: &str) -> String {
    pids.iter().map(i32::to_string).collect::<Vec<_>>().join(between)
}

/// A JSON string (RFC 8259, 7).
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if u32::from(control) < 0x20 => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_machines_are_told_the_same() {
        let generation = GenerationStatus {
            number: 3,
            state: "serving",
            workers: vec![7, 8],
            addresses: vec!["127.0.0.1:80".to_owned(), "unix:/run/x.sock".to_owned()],
            handed_over: vec!["127.0.0.1:80".to_owned()],
            warnings: vec!["old".to_owned()],
        };
        let mut status = Status { parent: 6, restarts: 1, lost_lines: 2, generations: vec![generation], totals: None };
        assert_eq!(
            status.text(),
            "parent 6, 1 restarts, 2 log lines lost\n\
             generation 3 serving: workers 7 8, listening on 127.0.0.1:80 unix:/run/x.sock\nwarning: old\nno worker answered"
        );
        assert_eq!(
            status.json(),
            "{\"pid\":6,\"restarts\":1,\"log_lines_unwritten\":2,\"generations\":[{\"generation\":3,\"state\":\"serving\",\
             \"handed_over\":[\"127.0.0.1:80\"],\"workers\":[7,8],\"listen\":[\"127.0.0.1:80\",\"unix:/run/x.sock\"],\"warnings\":[\"old\"]}]}"
        );
        assert_eq!(handed_over(&status.json()), ["\"127.0.0.1:80\""]);
        assert!(is_handed_over(&status.json(), "127.0.0.1:80") && !is_handed_over(&status.json(), "unix:/run/x.sock"));
        status.generations[0].addresses.clear();
        assert!(status.text().contains("serving: workers 7 8\n"));
        status.totals = Some(Totals::default());
        assert!(status.text().contains("connections now: 0 reading") && status.json().contains("}],\"connections_reading\":0,"));
    }

    #[test]
    fn a_path_of_any_bytes_leaves_the_json_whole() {
        let odd = "unix:/run/a\"b\\c\n\u{1b}\u{e9}";
        let handed_over = vec!["[::]:80".to_owned(), "unix:/a],\"b".to_owned(), odd.to_owned()];
        let generation = GenerationStatus {
            number: 1,
            state: "serving",
            workers: Vec::new(),
            addresses: vec![odd.to_owned()],
            handed_over,
            warnings: Vec::new(),
        };
        let status = Status { generations: vec![generation], ..Status::default() };
        let read: serde_json::Value = serde_json::from_str(&status.json()).unwrap();
        assert_eq!(read["generations"][0]["listen"][0], odd);
        assert_eq!(read["generations"][0]["handed_over"][2], odd);
        assert!(["[::]:80", odd].iter().all(|address| is_handed_over(&status.json(), address)));
    }
}
