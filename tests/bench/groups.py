"""Processes and control groups: how much CPU time and memory a server used, and how much it may use."""

import contextlib
import os
import pathlib
import re
import time

PERIOD_US = 10_000


def tree(root):
    """The process `root` and all that descend from it."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
                parents[int(entry)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def command_line(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def pss_kib(pids):
    """Proportional set size of the processes together, in KiB."""
    total = 0
    for pid in pids:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += int(re.search(r"^Pss:\s+(\d+) kB", text, re.M).group(1))
    return total


def cpu_seconds_of(pids):
    """utime + stime of living processes, and of their dead children."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            ticks += sum(int(field) for field in stat[stat.rindex(")") + 2 :].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


class NoGroup:
    """Where no control group can be made: no quota, and CPU time from /proc in steps of a clock tick."""

    kind = "none (CPU time from /proc, no quota)"
    has_quota = False

    def __init__(self, name):
        self.root = None

    def enter(self, pid=None):
        pass

    def quota(self, share):
        pass

    def cpu_seconds(self):
        return cpu_seconds_of(tree(self.root))

    def remove(self):
        pass


class GroupV1:
    kind = "cgroup v1, cpu.cfs_quota_us and cpuacct.usage"
    has_quota = True

    def __init__(self, name):
        self.root = None
        self.cpu = pathlib.Path("/sys/fs/cgroup/cpu") / name
        self.acct = pathlib.Path("/sys/fs/cgroup/cpuacct") / name
        for path in {self.cpu, self.acct}:
            path.mkdir(exist_ok=True)
        (self.cpu / "cpu.cfs_period_us").write_text(str(PERIOD_US))

    def enter(self, pid=None):
        for path in (self.cpu, self.acct):
            (path / "cgroup.procs").write_text(str(pid or os.getpid()))

    def quota(self, share):
        (self.cpu / "cpu.cfs_quota_us").write_text("-1" if share is None else str(int(PERIOD_US * share)))

    def cpu_seconds(self):
        return int((self.acct / "cpuacct.usage").read_text()) / 1e9

    def remove(self):
        for path in {self.cpu, self.acct}:
            remove_group(path)


class GroupV2:
    kind = "cgroup v2, cpu.max and cpu.stat"
    has_quota = True

    def __init__(self, name):
        self.root = None
        base = pathlib.Path("/sys/fs/cgroup")
        (base / "cgroup.subtree_control").write_text("+cpu")
        self.path = base / name
        self.path.mkdir(exist_ok=True)
        if not (self.path / "cpu.max").exists():
            self.path.rmdir()
            raise OSError("no cpu controller")

    def enter(self, pid=None):
        (self.path / "cgroup.procs").write_text(str(pid or os.getpid()))

    def quota(self, share):
        (self.path / "cpu.max").write_text(f"max {PERIOD_US}" if share is None else f"{int(PERIOD_US * share)} {PERIOD_US}")

    def cpu_seconds(self):
        return int(re.search(r"usage_usec (\d+)", (self.path / "cpu.stat").read_text()).group(1)) / 1e6

    def remove(self):
        remove_group(self.path)


def remove_group(path):
    for _ in range(100):
        try:
            path.rmdir()
            return
        except OSError:
            time.sleep(0.05)


def group_kind():
    """The best kind of control group that works here, tried and not guessed."""
    for kind in (GroupV1, GroupV2):
        try:
            group = kind(f"anchorite-bench-probe-{os.getpid()}")
            group.quota(0.5)
            group.cpu_seconds()
            group.remove()
            return kind
        except OSError:
            continue
    return NoGroup
