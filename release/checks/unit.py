"""the unit is valid, and exposed to 2.5 at most"""

import os
import re
import shutil

from .machine import ensure, folder, need, package, run, say

# In tenths, as systemd-analyze takes it.
EXPOSURE = 25


def check():
    need(**{"systemd_analyze": "systemd", "dpkg_deb": "dpkg"})
    with folder() as path:
        run("dpkg-deb", "-x", package("*.deb"), path)
        unit = path / "lib/systemd/system/crocodile-pear.service"
        # The program has to be there for `verify`, and is not installed here.
        local = path / "crocodile-pear.service"
        local.write_text(unit.read_text().replace("/usr/bin/crocodile-pear", str(path / "usr/bin/crocodile-pear")))
        said = run("systemd-analyze", "verify", "--man=no", local, env=os.environ | {"SYSTEMD_LOG_LEVEL": "notice"})
        mine = [line for line in said.splitlines() if "crocodile-pear" in line]
        ensure(not mine, f"systemd-analyze verify: {mine}")
        security = ["security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager"]
        told = run("systemd-analyze", *security, local)
        say("  " + re.sub(r"[^\x20-\x7e]", "", told.strip().splitlines()[-1]).strip())
        shutil.rmtree(path)
        path.mkdir()
