"""The servers that are compared, each with its configuration, and the files that they serve."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from groups import command_line, tree

PROJECT = pathlib.Path(__file__).resolve().parents[2]
SERVER_CPU = 0
CLIENT_CPU = 1

# What the files are called and how large they are.
SIZES = {
    "177": 177,
    "1k": 1024,
    "1795": 1795,
    "16k": 16 << 10,
    "30k": 30 << 10,
    "50k": 50 << 10,
    "100k": 100 << 10,
    "110k": 110 << 10,
    "128k": 128 << 10,
    "1800k": 1_800_000,
}
MANY = 10_000


def make_files():
    files = pathlib.Path(tempfile.mkdtemp(prefix="bench-files-"))
    (files / "many").mkdir()
    for name, size in SIZES.items():
        (files / f"{name}.bin").write_bytes(os.urandom(size))
    for number in range(MANY):
        (files / "many" / f"{number}.bin").write_bytes(os.urandom(1024))
    for path in [files, *files.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return files


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """One server of one kind, running; `with` ends it."""

    # The socket of PHP-FPM, where there is one: then *.php goes there.
    pool = None

    def __init__(self, name, workers, files, kind_of_group, cpus=(SERVER_CPU,), pair=None):
        self.name = name
        self.port = free_port()
        # The files of a certificate, of its key, and of both: then it is served over TLS too.
        self.pair, self.tls_port = pair, free_port() if pair else None
        self.home = pathlib.Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
        self.home.chmod(0o755)
        self.group = kind_of_group(f"anchorite-bench-{os.getpid()}-{name}-{workers}") if kind_of_group else None
        command = COMMANDS[name](self, workers, files)

        def in_child():
            if self.group:
                self.group.enter()
                os.sched_setaffinity(0, set(cpus))

        self.output = open(self.home / "output", "wb")
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, preexec_fn=in_child if self.group else None
        )
        if self.group:
            self.group.root = self.process.pid
        self.first_answer = self.wait_for_answer() - self.started

    def wait_for_answer(self):
        request = b"GET /1k.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        while time.perf_counter() - self.started < 10:
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as client:
                    client.sendall(request)
                    if client.recv(12).startswith(b"HTTP/1.1 200"):
                        return time.perf_counter()
            except (ConnectionRefusedError, ConnectionResetError):
                time.sleep(0.0002)
        raise RuntimeError(f"{self.name} does not answer:\n{(self.home / 'output').read_text()}{self.errors()}")

    def errors(self):
        path = self.home / "error.log"
        return path.read_text() if path.exists() else ""

    def pids(self):
        return tree(self.process.pid)

    def workers(self):
        """The processes that serve."""
        pids = self.pids()
        named = [pid for pid in pids if "worker" in command_line(pid)]
        return named or pids[1:] or pids

    def lines_logged(self):
        try:
            with open(self.home / "access.log", "rb") as log:
                return sum(piece.count(b"\n") for piece in iter(lambda: log.read(1 << 20), b""))
        except FileNotFoundError:
            return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.group:
            self.group.remove()
        self.output.close()
        shutil.rmtree(self.home, ignore_errors=True)


def nginx(server, workers, files, log=""):
    """What a careful administrator sets: sendfile, tcp_nopush, cached descriptors. The log is unbuffered, as by default."""
    home = server.home
    # nginx allots memory for all connections at start. Memory is measured with Debian's number, which favours nginx.
    connections = 16384 if workers == 1 else 768
    # Connections are kept, and buffers hold the answers: without, those of 65 KiB would go through a file.
    upstream = f"upstream php {{ server unix:{server.pool}; keepalive 16; }}" if server.pool else ""
    php = (
        """location ~ \\.php$ {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_pass php;
            fastcgi_keep_conn on;
            fastcgi_buffers 16 16k;
        }"""
        if server.pool
        else ""
    )
    tls = (
        f"""listen 127.0.0.1:{server.tls_port} ssl http2 backlog=4096;
        ssl_certificate {server.pair[0]};
        ssl_certificate_key {server.pair[1]};
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:all:10m;"""
        if server.pair
        else ""
    )
    (home / "nginx.conf").write_text(
        f"""
user www-data;
worker_processes {workers};
daemon off;
pid {home}/nginx.pid;
error_log {home}/error.log;
worker_rlimit_nofile 32768;
events {{ worker_connections {connections}; }}
http {{
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log {home}/access.log combined{log};
    sendfile on;
    tcp_nopush on;
    server_tokens off;
    keepalive_timeout 65;
    keepalive_requests 100000000;
    open_file_cache max=20000 inactive=60s;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    client_max_body_size 16m;
    {upstream}
    server {{
        listen 127.0.0.1:{server.port} backlog=4096;
        {tls}
        root {files};
        {php}
    }}
}}
"""
    )
    return ["/usr/sbin/nginx", "-p", str(home), "-c", str(home / "nginx.conf"), "-e", str(home / "error.log")]


def nginx_buffered(server, workers, files):
    """The same with a buffered log, which loses lines when a worker dies, but is what anchorite's batches compare with."""
    return nginx(server, workers, files, " buffer=64k flush=1s")


def lighttpd(server, workers, files):
    """Its default event handler and its default, buffered log. It makes worker processes only when asked for more than one."""
    home = server.home
    log = home / "access.log"
    for path in (log, home / "error.log"):
        path.touch()
        shutil.chown(path, "www-data")
    php = f'server.modules += ( "mod_fastcgi" )\nfastcgi.server = ( ".php" => (( "socket" => "{server.pool}" )) )' if server.pool else ""
    tls = (
        f"""server.modules += ( "mod_openssl" )
$SERVER["socket"] == "127.0.0.1:{server.tls_port}" {{
    ssl.engine = "enable"
    ssl.pemfile = "{server.pair[0]}"
    ssl.privkey = "{server.pair[1]}"
}}"""
        if server.pair
        else ""
    )
    (home / "lighttpd.conf").write_text(
        f"""
server.modules = ( "mod_accesslog" )
{php}
{tls}
server.document-root = "{files}"
server.bind = "127.0.0.1"
server.port = {server.port}
server.username = "www-data"
server.groupname = "www-data"
server.errorlog = "{home}/error.log"
server.max-fds = 32768
server.max-connections = 16384
server.max-keep-alive-requests = 100000000
server.max-keep-alive-idle = 65
server.listen-backlog = 4096
server.max-worker = {workers if workers > 1 else 0}
accesslog.filename = "{log}"
mimetype.assign = ( ".bin" => "application/octet-stream" )
"""
    )
    return ["/usr/sbin/lighttpd", "-D", "-f", str(home / "lighttpd.conf")]


def h2o(server, workers, files):
    """Threads instead of processes; its access log is written at once."""
    home = server.home
    tls = (
        f"""listen:
  host: 127.0.0.1
  port: {server.tls_port}
  ssl:
    certificate-file: {server.pair[0]}
    key-file: {server.pair[1]}"""
        if server.pair
        else ""
    )
    (home / "h2o.conf").write_text(
        f"""
user: www-data
num-threads: {workers}
max-connections: 16384
http1-request-timeout: 65
error-log: {home}/error.log
access-log: {home}/access.log
listen:
  host: 127.0.0.1
  port: {server.port}
{tls}
hosts:
  "default":
    paths:
      "/":
        file.dir: {files}
"""
    )
    return ["/usr/bin/h2o", "-m", "worker", "-c", str(home / "h2o.conf")]


def apache(server, workers, files):
    """Module event, with the threads that 500 clients need; its access log is unbuffered, as by default."""
    home = server.home
    modules = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in ("mpm_event", "authz_core", "mime"))
    (home / "apache.conf").write_text(
        f"""
ServerRoot {home}
ServerName localhost
{modules}
Listen 127.0.0.1:{server.port}
ListenBacklog 4096
User www-data
Group www-data
PidFile {home}/apache.pid
ErrorLog {home}/error.log
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog {home}/access.log combined
TypesConfig /etc/mime.types
StartServers {workers}
ServerLimit 16
ThreadsPerChild 64
MaxRequestWorkers 1024
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 65
EnableSendfile On
ServerTokens Prod
DocumentRoot {files}
<Directory {files}>
    Require all granted
</Directory>
"""
    )
    return ["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", str(home / "apache.conf")]


def anchorite(server, workers, files, binary="target/release/anchorite"):
    home = server.home
    path = home / "anchorite.toml"
    # As many are kept as nginx keeps.
    backend = f'[backend.php]\ntype = "fastcgi"\naddress = ["unix:{server.pool}"]\nkeep = 16\nqueue = 4096' if server.pool else ""
    rule = '[[site.rule]]\npath = "*.php"\nbackend = "php"' if server.pool else ""
    tls_listen = f'tls_listen = ["127.0.0.1:{server.tls_port}"]' if server.pair else ""
    tls = f'tls = {{ certificate = "{server.pair[0]}", key = "{server.pair[1]}" }}' if server.pair else ""
    path.write_text(
        f"""
[server]
user = "nobody"
group = "nogroup"
workers = {workers}
listen = ["127.0.0.1:{server.port}"]
{tls_listen}
control_socket = "{home}/control.sock"
pid_file = "{home}/anchorite.pid"

[log]
access = "{home}/access.log"
error = "{home}/error.log"

[limits]
keepalive_requests = 100000000
keepalive_timeout = "65s"

{backend}

[[site]]
name = [""]
root = "{files}"
{tls}
{rule}
"""
    )
    return [str(PROJECT / binary), "run", "-c", str(path)]


def anchorite_unconfined(server, workers, files):
    return anchorite(server, workers, files, "target/unconfined/release/anchorite")


def responder(server, workers, files):
    """Answers every request with the same kibibyte: what no server can beat, as it does nothing else."""
    return [str(tool()), "respond", str(server.port), "1024"]


def tool():
    """The program of tool.c, compiled."""
    path = PROJECT / "target/bench-tool"
    source = pathlib.Path(__file__).with_name("tool.c")
    if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
        path.parent.mkdir(exist_ok=True)
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(path), str(source)], check=True)
    return path


COMMANDS = {
    "nginx": nginx,
    "nginx-buffered": nginx_buffered,
    "lighttpd": lighttpd,
    "h2o": h2o,
    "apache": apache,
    "anchorite": anchorite,
    "anchorite-unconfined": anchorite_unconfined,
    "responder": responder,
}
