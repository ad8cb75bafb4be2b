"""What the parts need of this machine: programs, namespaces, servers, packages."""

import contextlib
import fcntl
import http.client
import http.server
import os
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "target" / "packages"

# Every wait ends: a check that hangs says where.
LIMIT = 60


class Skipped(Exception):
    """The machine does not allow a part."""


def say(text):
    print(text, flush=True)


def ensure(holds, text):
    if not holds:
        sys.exit(f"  FAILED: {text}")


def run(*command, **options):
    """Runs a command that has to succeed, and returns what it prints."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 10 * LIMIT} | options
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, **options)
    ensure(done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def try_run(*command):
    """Runs a command that needs a network; skips the part without one."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10 * LIMIT)
    if done.returncode and not os.environ.get("CI"):
        raise Skipped(f"{command[0]}: {done.stdout.strip().splitlines()[-1:]}")
    ensure(done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}")


def need(**programs):
    """Skips a part whose programs are missing; each has the package that brings it."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [package for program, package in programs.items() if not shutil.which(program.replace("_", "-"))]
    if missing and os.environ.get("CI"):
        ensure(False, f"programs are missing: install {' '.join(missing)}")
    if missing:
        raise Skipped(f"install {' '.join(missing)}")


def need_namespaces():
    probe = ["unshare", "--net", "--pid", "--mount", "--fork", "true"]
    if os.geteuid() != 0 or subprocess.run(probe, capture_output=True).returncode:
        raise Skipped("this machine does not allow namespaces: run it as root, outside of an unprivileged container")


def package(pattern):
    """The one package of this kind."""
    found = sorted(PACKAGES.glob(pattern))
    if not found:
        run("release/build", cwd=ROOT, stdout=None, stderr=None, timeout=3600)
        found = sorted(PACKAGES.glob(pattern))
    ensure(len(found) == 1, f"one {pattern} in {PACKAGES}, not {len(found)}")
    return found[0]


@contextlib.contextmanager
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="crocodile-pear-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def tarball():
    """The tarball, unpacked."""
    with folder() as path:
        run("tar", "-C", path, "-xf", package("*.tar.gz"))
        yield next(path.iterdir())


@contextlib.contextmanager
def network(pid=None):
    """Everything within happens in a network of its own, where 127.0.0.1 is nobody else's; or in that of a process."""
    mine = os.open("/proc/self/ns/net", os.O_RDONLY)
    if pid is None:
        enter(None)
        raise_loopback()
    else:
        theirs = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        enter(theirs)
        os.close(theirs)
    try:
        yield
    finally:
        enter(mine)
        os.close(mine)


def enter(descriptor):
    """Moves this thread, and those that it starts, to another network; to a new one without a descriptor."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    new = 0x40000000
    failed = libc.unshare(new) if descriptor is None else libc.setns(descriptor, new)
    ensure(not failed, f"another network: {os.strerror(ctypes.get_errno())}")


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))


@contextlib.contextmanager
def process(command, log, **options):
    """A process whose output goes to the file `log`. It is killed at the end if it still runs."""
    with open(log, "wb") as output:
        running = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options
        )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGKILL)
        running.wait()


def until(what, holds, log=None):
    """Waits until something holds, and returns it."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    ensure(False, f"not within {LIMIT} s: {what}\n{pathlib.Path(log).read_text(errors='replace') if log else ''}")


def ask(port, target="/", timeout=LIMIT, host="127.0.0.1"):
    """The status and the body of an answer; `None` if nobody listens."""
    try:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return None


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers with the path; `/slow/SECONDS` waits."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/slow/"):
            time.sleep(float(self.path.rsplit("/", 1)[1]))
        body = f'{{"path":"{self.path}"}}'.encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_):
        pass


def serve(port, certificate=None, key=None):
    """An upstream in this network, until the program ends."""
    server = Server(("127.0.0.1", port), Upstream)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def name_server(known):
    """A DNS server at 127.0.0.1:53, which knows the IPv4 addresses of these names."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 53))

    def answer():
        while True:
            question, client = listening.recvfrom(512)
            labels, at = [], 12
            while question[at]:
                labels.append(question[at + 1 : at + 1 + question[at]].decode())
                at += 1 + question[at]
            kind = struct.unpack("!H", question[at + 1 : at + 3])[0]
            address = known.get(".".join(labels).lower())
            records = b""
            if address and kind == 1:
                records = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(address)
            # A response, authoritative; an unknown name does not exist.
            flags = 0x8580 | (0 if address else 3)
            head = question[:2] + struct.pack("!HHHHH", flags, 1, 1 if records else 0, 0, 0)
            listening.sendto(head + question[12 : at + 5] + records, client)

    threading.Thread(target=answer, daemon=True).start()


def certify(path, name):
    """A certificate for the name, signed by itself: its file, and that of its key."""
    key, certificate = path / "key.pem", path / "certificate.pem"
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    run("openssl", "req", "-x509", *new, *subject, "-keyout", key, "-out", certificate)
    return certificate, key
