"""the workflows of the forge are valid, and the scripts that they and the packages run"""

import os

from .machine import ROOT, need, run

SCRIPTS = [".ci/run", ".ci/advise", "release/build", "release/publish"]
HOOKS = ["release/files/postinst", "release/files/prerm", "release/files/postrm"]


def check():
    os.environ["PATH"] += f":{ROOT}/target/programs"
    need(actionlint="actionlint (go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7)", shellcheck="shellcheck", dash="dash")
    run("actionlint", cwd=ROOT)
    run("shellcheck", "--severity=warning", *SCRIPTS, *HOOKS, cwd=ROOT)
    for script in HOOKS:
        run("dash", "-n", script, cwd=ROOT)
