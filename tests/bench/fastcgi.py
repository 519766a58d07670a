"""PHP behind the servers: a pool of PHP-FPM beside the client, scripts, and the rows about it."""

import contextlib
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from groups import cpu_seconds_of, pss_kib
from servers import CLIENT_CPU, Server

# Servers that are set up for it.
SPEAKERS = ("nginx", "nginx-buffered", "lighttpd", "anchorite", "anchorite-unconfined")
CHILDREN = 16
CROWD_CHILDREN = 10
UPLOAD = 10_000_000
UPLOADS = 20

SCRIPTS = {
    "small": "<?php echo 'Hello, world';",
    "19k": "<?php echo str_repeat('0123456789abcdef', 19 * 64);",
    "65k": "<?php echo str_repeat('0123456789abcdef', 65 * 64);",
    "upload": "<?php $all = 0; $in = fopen('php://input', 'r'); while (!feof($in)) $all += strlen(fread($in, 65536)); echo $all;",
    "slow": "<?php usleep(50000); echo 'slow';",
}


class Pool:
    """PHP-FPM on the client's CPU; `with` ends it."""

    def __init__(self, files, children=CHILDREN):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="bench-php-"))
        self.home.chmod(0o755)
        self.socket = self.home / "socket"
        for name, text in SCRIPTS.items():
            (files / f"{name}.php").write_text(text)
            (files / f"{name}.php").chmod(0o644)
        (self.home / "conf").write_text(
            f"""
[global]
error_log = {self.home}/log
daemonize = no
[www]
user = www-data
group = www-data
listen = {self.socket}
listen.backlog = 4096
listen.mode = 0666
pm = static
pm.max_children = {children}
php_admin_value[enable_post_data_reading] = 0
"""
        )
        program = max(pathlib.Path("/usr/sbin").glob("php-fpm*"))
        command = ["taskset", "-c", str(CLIENT_CPU), str(program), "-F", "-y", str(self.home / "conf")]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1000):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.connect(str(self.socket))
                return
            time.sleep(0.01)
        raise RuntimeError("PHP-FPM does not listen")

    def __enter__(self):
        Server.pool = self.socket
        return self

    def __exit__(self, *_):
        Server.pool = None
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.home, ignore_errors=True)


@contextlib.contextmanager
def started(name, files, kind, children=CHILDREN):
    """A server with a pool of its own: connections that one keeps would hold the children of another."""
    with Pool(files, children), Server(name, 1, files, kind) as server:
        yield server


def ask(port, head, body=b""):
    """The body of the answer, by a client that sends as fast as it can."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(head.encode() + b"Host: a\r\nConnection: close\r\n\r\n" + body)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    if not received.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(received[:200])
    return received.split(b"\r\n\r\n", 1)[1]


def upload(names, files, kind, rounds):
    """Milliseconds of server CPU for an upload of 10 MB to a script that reads it."""
    costs = {name: [] for name in names}
    body = bytes(UPLOAD)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(started(name, files, kind)) for name in names]
        for number in range(rounds):
            first = number % len(servers)
            for server in servers[first:] + servers[:first]:
                send = lambda: ask(server.port, f"POST /upload.php HTTP/1.1\r\nContent-Length: {UPLOAD}\r\n", body)
                if str(UPLOAD).encode() not in send():
                    raise RuntimeError(f"{server.name}: the upload did not come whole")
                before = cpu_of(server)
                for _ in range(UPLOADS):
                    send()
                costs[server.name].append((cpu_of(server) - before) * 1000 / UPLOADS)
    return {name: statistics.median(values) for name, values in costs.items()}


def cpu_of(server):
    return server.group.cpu_seconds() if server.group else cpu_seconds_of(server.pids())


def crowd(names, files, kind, rounds, seconds, latency):
    """p99 in milliseconds of static files, alone and beside 1,000 requests to a pool of 10; memory before and then, in KiB."""
    results = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            with started(name, files, kind, CROWD_CHILDREN) as server:
                latency(server)
                alone, before = latency(server)["p99"], pss_kib(server.pids())
                url = f"http://127.0.0.1:{server.port}/slow.php"
                command = ["taskset", "-c", str(CLIENT_CPU), "wrk", "-t1", "-c1000", f"-d{seconds + 4}s", "--timeout", "30s", "-H", "Host: a", url]
                many = subprocess.Popen(command, stdout=subprocess.DEVNULL)
                time.sleep(2)
                beside, then = latency(server)["p99"], pss_kib(server.pids())
                many.wait()
                results[name].append((alone, beside, before, then))
    return {name: [statistics.median(column) for column in zip(*runs)] for name, runs in results.items()}
