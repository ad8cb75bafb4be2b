"""the image has what it says, and its entry point is a good first process"""

import json
import os
import shutil
import signal
import subprocess

from .machine import LIMIT, ask, ensure, folder, need, need_namespaces, network, package, process, run, say, until


def check():
    need(umoci="umoci", unshare="util-linux", nsenter="util-linux")
    archive = package("*.oci.tar")
    say(f"  {archive.stat().st_size:,} bytes")
    with folder() as path:
        run("mkdir", path / "layout")
        run("tar", "-C", path / "layout", "-xf", archive)
        index = json.loads((path / "layout/index.json").read_text())
        tag = index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"]
        run("umoci", "unpack", "--image", f"{path}/layout:{tag}", path / "bundle")
        manifest = blob(path / "layout", index["manifests"][0])
        config = blob(path / "layout", manifest["config"])["config"]
        root = path / "bundle/rootfs"
        ensure(config["User"] == "65532:65532", "it does not run as root")
        ensure(config["StopSignal"] == "SIGTERM", "it is stopped by SIGTERM")
        for label in ["title", "version", "revision", "created", "licenses", "description"]:
            ensure(config["Labels"].get(f"org.opencontainers.image.{label}"), f"the image has the label {label}")
        programs = [file for file in root.rglob("*") if file.is_file() and os.access(file, os.X_OK)]
        ensure(programs == [root / "usr/bin/crocodile-pear"], f"the binary is the only program: {programs}")
        ensure((root / "etc/ssl/certs/ca-certificates.crt").stat().st_size > 100_000, "the image has authorities")
        need_namespaces()
        with network():
            run_it(path, root, config)


def blob(layout, descriptor):
    return json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text())


def run_it(path, root, config):
    """As a runtime does: its arguments, variables, user and folder, as the first process of its namespace."""
    user, group = config["User"].split(":")
    log = path / "log"
    within = [shutil.which("unshare"), "--pid", "--fork", "--kill-child", "--mount", f"--wd={root}{config['WorkingDir']}"]
    become = [shutil.which("chroot"), f"--userspec={user}:{group}", "--groups=", root]
    environment = dict(pair.split("=", 1) for pair in config["Env"])
    # chroot goes to `/`; the configuration is named by its whole path.
    with process([*within, *become, *config["Entrypoint"], *config["Cmd"]], log, env=environment) as outer:
        until("the image answers", lambda: ask(8080), log)
        children = lambda pid: open(f"/proc/{pid}/task/{pid}/children").read().split()
        first = children(outer.pid)[0]
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{first}/status").read().splitlines())
        ensure(status["NSpid"].split()[-1] == "1", "it is the first process")
        ensure(status["Uid"].split()[0] == user, "it has the user of the image")
        for line in log.read_text().splitlines():
            ensure("level" in json.loads(line), f"logs are JSON: {line}")

        health = ["nsenter", "--pid", "-t", first, "chroot", f"--userspec={user}:{group}", root, *config["Entrypoint"], "health"]
        ensure("200 OK" in run(*health), "the image knows that it is healthy")

        # Processes whose parent has ended become its children, and leave nothing when they end.
        run("nsenter", "--pid", "-t", first, "sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.0$i &) ; done", stdout=None)
        until("processes that others left behind are collected", lambda: not children(first), log)

        os.kill(int(first), signal.SIGHUP)
        until("SIGHUP reloads", lambda: "configuration reloaded" in log.read_text(), log)
        os.kill(int(first), signal.SIGTERM)
        ensure(subprocess.run(health, capture_output=True, timeout=LIMIT).returncode in (0, 1), "health ends")
        # The second one does not wait for load balancers.
        until("SIGTERM is heard", lambda: "shutting down" in log.read_text(), log)
        os.kill(int(first), signal.SIGTERM)
        ensure(outer.wait(LIMIT) == 0, f"SIGTERM ends it in order: {log.read_text()}")
    ensure('"message":"stopped"' in log.read_text(), log.read_text())
