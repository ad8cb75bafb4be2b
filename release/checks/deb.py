"""the .deb pleases lintian; installs, serves, reloads, upgrades without a lost request, is removed and purged in a Debian"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time

from .machine import ROOT, ask, ensure, folder, need, need_namespaces, network, package, process, run, say, serve, try_run, until

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
FILE = "/etc/crocodile-pear/crocodile-pear.yaml"
SERVICE = "crocodile-pear.service"

PROXY = """\
listen: ${LISTEN:-127.0.0.1:8080}
admin: 127.0.0.1:9090
upstreams: { up: 'http://127.0.0.1:9000' }
endpoints:
  GET /{*path}: up /{*path}
"""


def check():
    need(dpkg_deb="dpkg", lintian="lintian")
    built = package("*.deb")
    say(f"  {built.stat().st_size:,} bytes")
    # The maintainer's address is that of no one yet.
    quiet = "bogus-mail-host-in-debian-changelog,bogus-mail-host,initial-upload-closes-no-bugs"
    if os.environ.get("BINARY"):
        # A binary of the tests is no static one.
        quiet += ",missing-dependency-on-libc"
    said = run("lintian", "--fail-on", "error", "--suppress-tags", quiet, "--allow-root", "--tag-display-limit=0", built)
    warnings = [line for line in said.splitlines() if line.startswith(("E:", "W:"))]
    ensure(not warnings, "\n".join(warnings))
    need(debootstrap="debootstrap", systemd_nspawn="systemd-container", nsenter="util-linux")
    need_namespaces()
    with debian() as root, folder() as aside:
        shutil.copy(built, root / "root/first.deb")
        newer(built, aside, root / "root/second.deb")
        with booted(root, aside) as machine:
            before = machine.files()
            installed(machine)
            reloaded(machine)
            bad_files(machine)
            upgraded(machine)
            removed(machine, before)


@contextlib.contextmanager
def debian():
    """A fresh root; made once, and kept in target/check for the next time."""
    kept = ROOT / "target" / "check" / SUITE
    if not (kept / "root").is_dir():
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        half = kept.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        try_run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,adduser,init-system-helpers", SUITE, half, MIRROR)
        half.rename(kept)
    with folder() as path:
        root = path / "root"
        run("cp", "-a", kept, root)
        # Nobody has to be asked for a locale, and nothing else has to begin.
        (root / "etc/hostname").write_text("pear\n")
        for unit in ["getty.target", "apt-daily.timer", "apt-daily-upgrade.timer", "systemd-resolved.service"]:
            mask = root / "etc/systemd/system" / unit
            mask.unlink(missing_ok=True)
            mask.symlink_to("/dev/null")
        yield root


def newer(built, aside, to):
    """The same package with a later version."""
    run("dpkg-deb", "-R", built, aside / "newer")
    control = aside / "newer/DEBIAN/control"
    text = control.read_text()
    control.write_text(re.sub(r"^Version: (.*)$", r"Version: \1+later", text, flags=re.M))
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", aside / "newer", to)


class Machine:
    """A Debian that runs, in a network of its own."""

    def __init__(self, root, pid):
        self.root, self.pid = root, pid

    def run(self, *command, check=True):
        """Runs a command in it, and returns what it prints."""
        within = ["nsenter", "--all", "-t", self.pid, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"]
        words = [str(word) for word in [*within, *command]]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        ensure(done.returncode == 0 or not check, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}\n{self.journal() if check else ''}")
        return done.stdout

    def journal(self):
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", SERVICE, check=False)

    def state(self, name="ActiveState"):
        return self.run("systemctl", "show", "--value", "-p", name, SERVICE).strip()

    def write(self, path, text):
        (self.root / path.lstrip("/")).write_text(text)

    def files(self):
        """All files, without those that any installation or start of a service leaves behind."""
        passing = re.compile(r"^/(proc|sys|dev|run|tmp|root)/|^/var/(cache|log|lib/dpkg|lib/apt|lib/systemd|tmp)/|^/etc/.*-$|^/var/lib/(private|cache)")
        found = self.run("find", "/", "-xdev", "-mindepth", "1", "-print").splitlines()
        return {path for path in found if not passing.search(path)}


@contextlib.contextmanager
def booted(root, aside):
    with network():
        # An upstream of the gateway, in the network that the machine shares with this program alone.
        serve(9000)
        log = aside / "console"
        command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "-D", root, "--boot", "--console=pipe"]
        with process(command, log) as outer:
            children = lambda: open(f"/proc/{outer.pid}/task/{outer.pid}/children").read().split()
            pid = until("systemd begins", children, log)[0]
            machine = Machine(root, pid)
            reached = lambda: machine.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded")
            try:
                until("systemd has started everything", reached, log)
                yield machine
            finally:
                # systemd's own signal for a halt.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGRTMIN + 4)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    outer.wait(20)


def install(machine, name, check=True):
    # An upgrade keeps the administrator's configuration without a question.
    options = ["-o", "Dpkg::Options::=--force-confold", "-o", "Dpkg::Use-Pty=0"]
    return machine.run("apt-get", "install", "--yes", "--quiet", *options, f"/root/{name}.deb", check=check)


def installed(machine):
    began = time.monotonic()
    install(machine, "first")
    until("the service answers", lambda: ask(8080))
    status, body = ask(8080)
    ensure(status == 200 and "crocodile-pear.yaml" in body, body)
    machine.write(FILE, PROXY)
    machine.run("crocodile-pear", "check", FILE)
    machine.run("systemctl", "reload", SERVICE)
    until("the first proxied answer", lambda: ask(8080, "/items") == (200, '{"path":"/items"}'))
    say(f"  {time.monotonic() - began:.1f} s from `apt install` to the first proxied answer")
    ensure("200 OK" in machine.run("crocodile-pear", "health"), "health")
    ensure(machine.state() == "active" and machine.state("UnitFileState") == "enabled", "it runs, and does after a boot")
    user = machine.run("ps", "-o", "user:20=", "-p", machine.state("MainPID"), check=False) if shutil.which("ps") else ""
    owner = machine.run("stat", "-c", "%U", f"/proc/{machine.state('MainPID')}").strip()
    ensure("crocodile-pear" in (owner, user.strip()), f"it runs as {owner}")
    for path, wanted in [("/var/lib/crocodile-pear", "crocodile-pear 750"), (FILE, "root 644")]:
        ensure(machine.run("stat", "-c", "%U %a", path).strip() == wanted, f"{path}: {machine.run('stat', path)}")


def reloaded(machine):
    """A variable of the environment file; a port below 1024; nothing of the system can be written."""
    machine.write("/etc/crocodile-pear/environment", "LISTEN=127.0.0.1:80\n")
    machine.run("systemctl", "restart", SERVICE)
    until("it listens on port 80", lambda: ask(80, "/a"))
    (machine.root / "etc/crocodile-pear/environment").unlink()
    machine.run("systemctl", "restart", SERVICE)
    until("it listens on port 8080", lambda: ask(8080, "/a"))


def bad_files(machine):
    broken = PROXY.replace("endpoints:", "endpoint:")
    machine.write(FILE, broken)
    machine.run("systemctl", "reload", SERVICE)
    until("the journal has the report", lambda: "unknown field `endpoint`" in machine.journal())
    ensure(ask(8080, "/b") == (200, '{"path":"/b"}'), "the old configuration serves on")
    # A version that cannot use it does not replace the one that serves.
    process = machine.state("MainPID")
    said = install(machine, "second")
    ensure("unknown field `endpoint`" in said and "was not replaced" in said, said)
    ensure(machine.state("MainPID") == process and ask(8080, "/b")[0] == 200, "the old process serves on")
    machine.run("dpkg", "-i", "/root/first.deb")
    for spoil, wanted in [
        (lambda: machine.write(FILE, broken), ["unknown field `endpoint`", f"{FILE}:4:1", "endpoints"]),
        (lambda: (machine.root / FILE[1:]).unlink(), [FILE, "crocodile-pear init"]),
    ]:
        spoil()
        machine.run("journalctl", "--rotate", "--vacuum-time=1s", "-q", check=False)
        machine.run("systemctl", "restart", SERVICE, check=False)
        until("the service fails", lambda: machine.state() == "failed")
        ensure(machine.state("Result") in ("exit-code", "start-limit-hit"), machine.state("Result"))
        told = machine.journal()
        ensure(all(word in told for word in wanted), told)
        machine.write(FILE, PROXY)
        machine.run("systemctl", "reset-failed", SERVICE)
        machine.run("systemctl", "start", SERVICE)
        until("it serves again", lambda: ask(8080, "/c"))


def upgraded(machine):
    """New connections all the time, and one request that lasts longer than the upgrade."""
    until("it is ready", lambda: ask(9090, "/ready"))
    before, stop, failures, counts, slow = machine.state("MainPID"), threading.Event(), [], [], []

    def load():
        count = 0
        while not stop.is_set():
            answer = ask(8080, f"/{count}")
            if answer != (200, f'{{"path":"/{count}"}}'):
                failures.append(answer)
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=load) for _ in range(4)]
    threads.append(threading.Thread(target=lambda: slow.append(ask(8080, "/slow/8"))))
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    config = (machine.root / FILE[1:]).read_text()
    began = time.monotonic()
    said = install(machine, "second")
    took = time.monotonic() - began
    # Some more requests of the new process alone.
    until("the other process serves", lambda: machine.state("MainPID") not in ("0", before))
    time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join()
    ensure(not failures, f"{len(failures)} of {sum(counts)} requests failed in an upgrade: {failures[:3]}\n{said}\n{machine.journal()}")
    ensure(slow == [(200, '{"path":"/slow/8"}')], f"the request that was in flight: {slow}\n{machine.journal()}")
    ended = lambda: not machine.run("sh", "-c", f"test -d /proc/{before} && echo there", check=False)
    until("the process before has ended", ended)
    ensure(ask(8080, "/e") and machine.state() == "active", f"the new process goes on: {machine.journal()}")
    ensure((machine.root / FILE[1:]).read_text() == config == PROXY, "the configuration is as before")
    ensure("+later" in machine.run("dpkg-query", "-W", "crocodile-pear"), "the later version is installed")
    say(f"  upgrade in {took:.1f} s: {sum(counts)} requests by new connections and one of 8 s, none lost")
    machine.run("systemctl", "restart", SERVICE)
    until("it serves after a restart, too", lambda: ask(8080, "/d"))


def removed(machine, before):
    machine.run("apt-get", "remove", "--yes", "--quiet", "crocodile-pear")
    ensure(ask(8080) is None, "it has stopped")
    ensure((machine.root / FILE[1:]).exists(), "the configuration stays")
    machine.run("apt-get", "purge", "--yes", "--quiet", "crocodile-pear")
    left = machine.files() - before
    ensure(not left, f"a purge leaves {sorted(left)}")
    users = machine.run("cat", "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow")
    ensure("crocodile-pear" not in users, "a purge leaves a user")
    ensure(SERVICE not in machine.run("systemctl", "list-unit-files", "--no-pager"), "a purge leaves a unit")
