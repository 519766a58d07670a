//! Compiles `policy/` into the program: `roles.toml` to tables of grants, `seccomp/<arch>/<role>.json` to filters.
//!
//! Every architecture's files are compiled on every build, so a name that one of them does not know fails at once; only
//! the filters of the target are written to `$OUT_DIR/policy.rs`, which `src/sys/policy.rs` includes. Nothing of this is
//! parsed or merged at run time. The names of all system calls of the target go there too, for the error log.

use seccompiler::{BpfProgram, TargetArch};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One stanza of `roles.toml`; each table is a name and its reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stanza {
    purpose: String,
    user: User,
    sees: String,
    capabilities: BTreeMap<String, String>,
    namespaces: BTreeMap<String, String>,
    landlock: BTreeMap<String, String>,
    limits: BTreeMap<String, Limit>,
    descriptors: BTreeMap<String, String>,
    messages: BTreeMap<String, String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
enum User {
    Root,
    Service,
    Keys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    value: u64,
    reason: String,
}

/// One seccomp file: an allow list with the calls that are answered `ENOSYS`, or a deny list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    role: String,
    allow: Option<Vec<Call>>,
    enosys: Option<Vec<Call>>,
    deny: Option<Vec<Call>>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Call {
    syscall: String,
    comment: String,
    args: Option<Vec<Argument>>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Argument {
    index: u8,
    #[serde(rename = "type")]
    width: String,
    op: Value,
    val: u64,
    comment: String,
}

/// The filters of one role on one architecture.
struct Filters {
    calls: Calls,
    /// The allow list, anything else ends the process; or the deny list, answered EPERM.
    list: BpfProgram,
    /// The allow list with EPERM in place of the end: for the process that proves the sandbox.
    proof: BpfProgram,
    /// Answers ENOSYS to what libraries probe.
    enosys: BpfProgram,
}

const ARCHITECTURES: [(&str, TargetArch); 2] = [("x86_64", TargetArch::x86_64), ("aarch64", TargetArch::aarch64)];
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=policy");
    let policy = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("policy");
    let target = env::var("CARGO_CFG_TARGET_ARCH")?;
    let roles: toml::Table = toml::from_str(&fs::read_to_string(policy.join("roles.toml"))?)?;
    let mut source = String::new();
    for (role, stanza) in roles {
        let stanza: Stanza = stanza.try_into().map_err(|fault| format!("policy/roles.toml: [{role}]: {fault}"))?;
        let mut of_target = None;
        for (name, arch) in ARCHITECTURES {
            let file = policy.join("seccomp").join(name).join(format!("{role}.json"));
            let filters = compile(&file, &role, arch).map_err(|fault| format!("{}: {fault}", file.display()))?;
            if name == target {
                of_target = Some(filters);
            }
        }
        let filters = of_target.ok_or_else(|| format!("no seccomp policy for the architecture \"{target}\""))?;
        write_role(&mut source, &role, &stanza, &filters)?;
    }
    write_calls(&mut source, &target)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("policy.rs"), source)?;
    Ok(())
}

/// Reads one seccomp file and compiles its filters.
fn compile(file: &Path, role: &str, arch: TargetArch) -> Result<Filters> {
    let calls: Calls = serde_json::from_str(&fs::read_to_string(file)?)?;
    if calls.role != role {
        return Err(format!("it names the role \"{}\"", calls.role).into());
    }
    let allow = calls.allow.clone().unwrap_or_default();
    let enosys = calls.enosys.clone().unwrap_or_default();
    let deny = calls.deny.clone().unwrap_or_default();
    if allow.is_empty() == deny.is_empty() {
        return Err("either an allow list or a deny list is needed".into());
    }
    check(&[&allow, &enosys, &deny])?;
    if !deny.is_empty() {
        let list = filter(&deny, json!("allow"), json!({ "errno": EPERM }), arch)?;
        return Ok(Filters { calls, list: deny_x32(list, arch), proof: Vec::new(), enosys: Vec::new() });
    }
    // The kernel takes the most severe answer of all filters: what the first answers with ENOSYS, the second must let pass.
    let passed: Vec<Call> = allow.iter().chain(&enosys).cloned().collect();
    let list = filter(&passed, json!("kill_process"), json!("allow"), arch)?;
    let proof = filter(&passed, json!({ "errno": EPERM }), json!("allow"), arch)?;
    let enosys = filter(&enosys, json!("allow"), json!({ "errno": ENOSYS }), arch)?;
    Ok(Filters { calls, list, proof, enosys })
}

/// Refuses what seccompiler would take in silence: one call in two rules (it keeps the narrower only), an empty reason.
fn check(lists: &[&[Call]]) -> Result<()> {
    let mut seen = Vec::new();
    for call in lists.iter().copied().flatten() {
        if seen.contains(&&call.syscall) {
            return Err(format!("\"{}\" stands in two rules", call.syscall).into());
        }
        seen.push(&call.syscall);
        let reasons = call.args.iter().flatten().map(|argument| &argument.comment).chain([&call.comment]);
        if reasons.into_iter().any(|reason| reason.trim().is_empty()) {
            return Err(format!("\"{}\" has no reason", call.syscall).into());
        }
    }
    Ok(())
}

fn filter(calls: &[Call], otherwise: Value, matched: Value, arch: TargetArch) -> Result<BpfProgram> {
    let rules: Vec<Value> = calls
        .iter()
        .map(|call| {
            let args: Vec<Value> = call
                .args
                .iter()
                .flatten()
                .map(|argument| json!({ "index": argument.index, "type": argument.width, "op": argument.op, "val": argument.val }))
                .collect();
            if args.is_empty() { json!({ "syscall": call.syscall }) } else { json!({ "syscall": call.syscall, "args": args }) }
        })
        .collect();
    let document = json!({ "filter": { "mismatch_action": otherwise, "match_action": matched, "filter": rules } }).to_string();
    let mut filters = seccompiler::compile_from_json(document.as_bytes(), arch)?;
    filters.remove("filter").ok_or_else(|| "no filter came of it".into())
}

/// A deny list would let every call through under its x32 number: answers those with ENOSYS before it looks further.
fn deny_x32(list: BpfProgram, arch: TargetArch) -> BpfProgram {
    const LOAD_NUMBER: (u16, u32) = (0x20, 0); // BPF_LD|BPF_W|BPF_ABS, offset of seccomp_data.nr
    const JUMP_IF_AT_LEAST: u16 = 0x35; // BPF_JMP|BPF_JGE|BPF_K
    const RETURN: u16 = 0x06; // BPF_RET|BPF_K
    const X32_SYSCALL_BIT: u32 = 0x4000_0000;
    const SECCOMP_RET_ERRNO: u32 = 0x0005_0000;
    let instruction = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    let mut program = Vec::new();
    if matches!(arch, TargetArch::x86_64) {
        program.push(instruction(LOAD_NUMBER.0, 0, 0, LOAD_NUMBER.1));
        program.push(instruction(JUMP_IF_AT_LEAST, 0, 1, X32_SYSCALL_BIT));
        program.push(instruction(RETURN, 0, 0, SECCOMP_RET_ERRNO | ENOSYS));
    }
    program.extend(list);
    program
}

/// Writes one role's `pub static NAME: Policy`.
fn write_role(out: &mut String, role: &str, stanza: &Stanza, filters: &Filters) -> Result<()> {
    writeln!(out, "pub(super) static {}: Policy = Policy {{", role.to_uppercase().replace('-', "_"))?;
    writeln!(out, "name: {role:?}, purpose: {:?}, sees: {:?}, user: User::{:?},", stanza.purpose, stanza.sees, stanza.user)?;
    for (field, grants) in [
        ("capabilities", &stanza.capabilities),
        ("namespaces", &stanza.namespaces),
        ("landlock", &stanza.landlock),
        ("descriptors", &stanza.descriptors),
        ("messages", &stanza.messages),
    ] {
        if let Some((name, _)) = grants.iter().find(|(_, reason)| reason.trim().is_empty()) {
            return Err(format!("policy/roles.toml: [{role}.{field}]: \"{name}\" has no reason").into());
        }
        write!(out, "{field}: &[")?;
        for (name, reason) in grants {
            write!(out, "Grant {{ name: {name:?}, reason: {reason:?} }},")?;
        }
        writeln!(out, "],")?;
    }
    write!(out, "limits: &[")?;
    for (name, Limit { value, reason }) in &stanza.limits {
        write!(out, "Limit {{ name: {name:?}, value: {value}, reason: {reason:?} }},")?;
    }
    writeln!(out, "],")?;
    for (field, calls) in [("allow", &filters.calls.allow), ("enosys", &filters.calls.enosys), ("deny", &filters.calls.deny)] {
        write!(out, "{field}: &[")?;
        for call in calls.iter().flatten() {
            write!(out, "Call {{ name: {:?}, reason: {:?}, arguments: &[", call.syscall, call.comment)?;
            for argument in call.args.iter().flatten() {
                let condition = condition(argument)?;
                write!(out, "Argument {{ index: {}, {condition}, reason: {:?} }},", argument.index, argument.comment)?;
            }
            write!(out, "] }},")?;
        }
        writeln!(out, "],")?;
    }
    for (field, program) in [("list", &filters.list), ("proof", &filters.proof), ("answered", &filters.enosys)] {
        write!(out, "{field}: &[")?;
        for step in program {
            write!(out, "Instruction {{ code: {}, jt: {}, jf: {}, k: {} }},", step.code, step.jt, step.jf, step.k)?;
        }
        writeln!(out, "],")?;
    }
    writeln!(out, "}};")?;
    Ok(())
}

/// Writes number and name of every system call of the target.
fn write_calls(out: &mut String, target: &str) -> Result<()> {
    let calls: Vec<(i32, &str)> = match target {
        "x86_64" => syscalls::x86_64::Sysno::iter().map(|call| (call.id(), call.name())).collect(),
        _ => syscalls::aarch64::Sysno::iter().map(|call| (call.id(), call.name())).collect(),
    };
    writeln!(out, "pub(super) static CALLS: &[(u32, &str)] = &{calls:?};")?;
    Ok(())
}

/// Only `eq` and `masked_eq` are admitted: a rule by `ne`, `gt` or `lt` is passed by bits that the kernel ignores.
fn condition(argument: &Argument) -> Result<String> {
    let bits = match argument.width.as_str() {
        "dword" => u64::from(u32::MAX),
        "qword" => u64::MAX,
        other => return Err(format!("unknown width \"{other}\"").into()),
    };
    let mask = if argument.op.as_str() == Some("eq") { Some(bits) } else { argument.op.get("masked_eq").and_then(Value::as_u64) };
    let mask = mask.ok_or_else(|| format!("the operator {} is not eq or masked_eq", argument.op))? & bits;
    Ok(format!("mask: {mask}, value: {}", argument.val))
}
