"""The rows of the table: what is asked of the servers, and how it is measured."""

import contextlib
import os
import re
import resource
import socket
import statistics
import subprocess
import time

from fastcgi import SPEAKERS, started
from groups import NoGroup, pss_kib
from servers import CLIENT_CPU, MANY, PROJECT, SIZES, Server, tool

CLOSE = ["-H", "Connection: close"]

# Requests for the many files, each as likely as the others.
MANY_LUA = f"""
math.randomseed(os.time())
request = function()
    return wrk.format("GET", "/many/" .. math.random(0, {MANY - 1}) .. ".bin")
end
"""


class Row:
    """Requests by wrk: how many, of what, and the share of one CPU that the server gets."""

    def __init__(self, name, title, path, connections=64, arguments=(), share=0.2, wanted=None):
        self.name, self.title, self.path = name, title, path
        self.connections, self.arguments, self.share = connections, list(arguments), share
        # Requests per CPU second as a multiple of nginx's that is the aim; the other servers are to be behind in any case.
        self.wanted = wanted


def size_rows():
    for name, size in SIZES.items():
        title = {"177": "177 B", "1795": "1,795 B", "1800k": "1.8 MB"}.get(name) or name.replace("k", " KiB")
        small = size <= 16 << 10
        kept = 1.6 if small else (1.0 if size >= 100 << 10 else None)
        yield Row(f"{name}-keep", f"{title}, keep-alive", f"/{name}.bin", share=0.4 if small else 0.2, wanted=kept)
        yield Row(f"{name}-close", f"{title}, new connection each", f"/{name}.bin", arguments=CLOSE, wanted=1.3 if small else (1.0 if size >= 100 << 10 else None))


THROUGHPUT = {row.name: row for row in size_rows()}
for count in (5, 500):
    for name, title, kept in (("1k", "1 KiB", 1.6), ("100k", "100 KiB", 1.0)):
        for arguments, ending, what, wanted in (((), "keep", "keep-alive", kept), (CLOSE, "close", "new connection each", 1.3 if name == "1k" else 1.0)):
            row = Row(f"{name}-{ending}-c{count}", f"{title}, {what}, {count} connections", f"/{name}.bin", count, arguments, wanted=wanted)
            THROUGHPUT[row.name] = row
THROUGHPUT["10000-files"] = Row("10000-files", f"{MANY:,} files of 1 KiB, keep-alive", "/", arguments=["-s", "MANY"], share=0.3, wanted=1.6)

PHP = {
    "php-small": Row("php-small", "PHP, 12 B, keep-alive", "/small.php", 16, share=0.1, wanted=1.3),
    "php-19k": Row("php-19k", "PHP, 19 KiB, keep-alive", "/19k.php", 16, share=0.1, wanted=1.1),
    "php-65k": Row("php-65k", "PHP, 65 KiB, keep-alive", "/65k.php", 16, share=0.1, wanted=1.1),
}
THROUGHPUT |= PHP

SPECIAL = {
    "idle-5000": "memory per idle connection, 5,000 of them",
    "idle-10000": "memory per idle connection, 10,000 of them",
    "slow-readers": "a fast client beside 500 slow readers",
    "two-workers-keep": "two workers against one, 1 KiB, keep-alive",
    "two-workers-close": "two workers against one, 1 KiB, new connection each",
    "classic": "ab and siege as people type them: no failed request",
    "php-upload": "an upload of 10 MB to PHP",
    "php-crowd": "static files beside 1,000 requests to a PHP pool of 10",
    "start": "memory idle and time to the first answer",
}

# The limit, measured with the same requests, is one of the servers here.
RESPONDER_ROWS = {"1k-keep", "1k-close", "1k-keep-c5", "1k-keep-c500", "1k-close-c5", "1k-close-c500"}


def wrk(server, row, seconds, scratch, latency=False):
    arguments = [str(scratch / "many.lua") if argument == "MANY" else argument for argument in row.arguments]
    if "MANY" in row.arguments:
        (scratch / "many.lua").write_text(MANY_LUA)
    command = ["taskset", "-c", str(CLIENT_CPU), "wrk", "-t1", f"-c{row.connections}", f"-d{seconds}s", "-H", "Host: a", *arguments]
    output = subprocess.run(
        [*command, *(["--latency"] if latency else []), f"http://127.0.0.1:{server.port}{row.path}"], check=True, capture_output=True, text=True
    ).stdout
    faults = sum(int(number) for number in re.findall(r"(?:connect|read|write|timeout) (\d+)", output))
    faults += sum(int(number) for number in re.findall(r"Non-2xx or 3xx responses: (\d+)", output))
    return output, int(re.search(r"(\d+) requests in", output).group(1)), faults


def load(server, row, seconds, scratch):
    """One run of wrk under the quota. Returns requests, requests per second and per CPU second, share of the quota used, faults."""
    server.group.quota(row.share)
    before, start = server.group.cpu_seconds(), time.perf_counter()
    output, requests, faults = wrk(server, row, seconds, scratch)
    cpu, wall = server.group.cpu_seconds() - before, time.perf_counter() - start
    return {
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1)),
        "per_cpu": requests / cpu if cpu else float("nan"),
        "used": cpu / wall / row.share if server.group.has_quota else cpu / wall,
        "requests": requests,
        "faults": faults,
    }


def latency(server, row, seconds, scratch):
    """The same without a quota: how long an answer takes, in milliseconds."""
    server.group.quota(None)
    output, requests, faults = wrk(server, row, seconds, scratch, latency=True)
    times = {}
    for percent, value, unit in re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)$", output, re.M):
        times[f"p{percent}"] = float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
    return {**times, "requests": requests, "faults": faults}


def throughput(names, rows, rounds, seconds, files, kind, scratch, with_latency):
    with contextlib.ExitStack() as stack:
        php = any(row.name in PHP for row in rows)
        servers = [stack.enter_context(started(name, files, kind) if php else Server(name, 1, files, kind)) for name in names]
        for server in servers:
            server.sent = 1
        results = {}
        for row in rows:
            there = [server for server in servers if server.name != "responder" or row.name in RESPONDER_ROWS]
            there = [server for server in there if server.name in SPEAKERS or row.name not in PHP]
            for server in there:
                results[row.name, server.name] = []
                server.sent += load(server, row, 1, scratch)["requests"]
            for number in range(rounds):
                # Another one begins in each round, so that none is always measured after the same one.
                first = number % len(there)
                for server in there[first:] + there[:first]:
                    result = load(server, row, seconds, scratch)
                    if with_latency:
                        times = latency(server, row, max(1, seconds // 2), scratch)
                        result.update(p50=times.get("p50"), p99=times.get("p99"), faults=result["faults"] + times["faults"])
                        server.sent += times["requests"]
                    server.sent += result["requests"]
                    results[row.name, server.name].append(result)
            yield row, {server.name: results[row.name, server.name] for server in there}, None
        for server in servers:
            server.group.quota(None)
        time.sleep(6)
        yield None, None, {server.name: (server.lines_logged(), server.sent) for server in servers if server.lines_logged() is not None}


# ---- rows of another kind ----------------------------------------------------------------------------------------


def idle(names, files, count):
    """KiB of memory (Pss of all processes) that one idle connection costs, after it had one answer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * count)), hard))
    costs = {}
    for name in names:
        with Server(name, 1, files, None) as server, contextlib.ExitStack() as stack:
            time.sleep(0.5)
            before = pss_kib(server.pids())
            for _ in range(count):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
                client.sendall(b"GET /1k.bin HTTP/1.1\r\nHost: a\r\n\r\n")
                received = b""
                while len(received) < 1024 or received.find(b"\r\n\r\n") + 4 + 1024 > len(received):
                    piece = client.recv(8192)
                    if not piece:
                        raise RuntimeError(f"{name} closed an idle connection")
                    received += piece
            time.sleep(0.5)
            costs[name] = (pss_kib(server.pids()) - before) / count
    return costs


def slow_readers(names, files, kind, rounds, seconds, scratch):
    """p50 and p99 in milliseconds of one client that asks for 1 KiB again and again while 500 others read 1.8 MB slowly.

    The responder has no large file: the others read from the first of the servers then, and what is measured is what the machine itself
    makes of them."""
    row = Row("fast", "", "/1k.bin", connections=1)
    times = {name: [] for name in names}
    first = next(name for name in names if name != "responder")
    for _ in range(rounds):
        for name in names:
            with contextlib.ExitStack() as stack:
                server = stack.enter_context(Server(name, 1, files, kind))
                read = stack.enter_context(Server(first, 1, files, kind)) if name == "responder" else server
                slow = subprocess.Popen(
                    ["taskset", "-c", str(CLIENT_CPU), str(tool()), "slow", str(read.port), "/1800k.bin", "500"], stdout=subprocess.PIPE
                )
                try:
                    slow.stdout.readline()
                    times[name].append(latency(server, row, seconds, scratch))
                finally:
                    slow.kill()
                    slow.wait()
    middle = lambda name, key: statistics.median(run[key] for run in times[name])
    return {name: {"p50": middle(name, "p50"), "p99": middle(name, "p99"), "faults": sum(run["faults"] for run in times[name])} for name in names}


def two_workers(names, files, kind, rounds, seconds, close, scratch):
    """Requests per second of two workers, each held to a fifth of a core, as a multiple of one worker so held."""
    if kind is NoGroup:
        return {}
    row = Row("two", "", "/1k.bin", arguments=CLOSE if close else ())
    factors = {}
    for name in names:
        rates = {1: [], 2: []}
        for _ in range(rounds):
            for workers in (1, 2):
                with Server(name, workers, files, kind, cpus=(0, 1)) as server, contextlib.ExitStack() as stack:
                    for number, pid in enumerate(server.workers()):
                        # Each worker has a core, and its fifth of it, to itself: one cannot do the other's share.
                        group = kind(f"anchorite-bench-{os.getpid()}-w{number}")
                        stack.callback(group.remove)
                        stack.callback(server.process.wait)
                        stack.callback(server.process.terminate)
                        group.enter(pid)
                        group.quota(0.2)
                        os.sched_setaffinity(pid, {number % 2})
                    output, _, _ = wrk(server, row, seconds, scratch)
                    rates[workers].append(float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1)))
        factors[name] = statistics.median(two / one for one, two in zip(rates[1], rates[2]))
    return factors


def classic(names, files, kind):
    """The command lines that people try a server with. Returns for each its text, requests and what failed."""
    lines = [
        "ab -q -c 10 -n 1000 {url}",
        "ab -q -c 20 -n 100000 {url}",
        "ab -q -k -c 20 -n 100000 {url}",
        "ab -q -c 500 -n 50000 {url}",
        "ab -q -k -c 500 -n 50000 {url}",
        "siege -q -j -d1 -c100 -r3 {url}",
        "siege -q -j -b -c100 -t5S {url}",
    ]
    for line in lines:
        for name in names:
            with Server(name, 1, files, kind) as server:
                environment = {**os.environ, "HOME": str(server.home)}
                command = line.format(url=f"http://127.0.0.1:{server.port}/1k.bin").split()
                started = time.perf_counter()
                done = subprocess.run(["taskset", "-c", str(CLIENT_CPU), *command], capture_output=True, text=True, env=environment)
                took = time.perf_counter() - started
                requests, failed = outcome(command[0], done.stdout)
                if done.returncode != 0:
                    failed = max(failed, 1)
                yield line.format(url="URL"), name, requests, failed, requests / took if took else 0


def outcome(program, text):
    number = lambda pattern: sum(int(float(value)) for value in re.findall(pattern, text, re.M))
    if program == "ab":
        # A length that differs is a failure too: the file does not change.
        return number(r"^Complete requests:\s+(\d+)"), number(r"^Failed requests:\s+(\d+)") + number(r"^Non-2xx responses:\s+(\d+)")
    return number(r'"transactions":\s*([\d.]+)'), number(r'"failed_transactions":\s*([\d.]+)')


def start(names, files, starts):
    """Of each server with two workers: processes, memory idle in KiB, times to the first answer in seconds."""
    times, memory, counts = {name: [] for name in names}, {name: [] for name in names}, {}
    for number in range(starts):
        for name in names:
            with Server(name, 2, files, None) as server:
                times[name].append(server.first_answer)
                if number < 3:
                    time.sleep(0.5)
                    pids = server.pids()
                    memory[name].append(pss_kib(pids))
                    counts[name] = len(pids)
    return {name: (counts[name], statistics.median(memory[name]), statistics.median(times[name]), min(times[name])) for name in names}
