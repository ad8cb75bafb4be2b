"""manual pages and completions know the commands and the options that --help knows"""

import os
import re
import shlex
import tempfile

from .machine import ensure, need, run, say, tarball


def commands(binary, *path):
    """The options of a command and of those below it, by their words."""
    page = run(binary, *path, "--help")
    known = {path: options(page)}
    section = page.split("Commands:\n")[1].split("\n\n")[0] if "Commands:\n" in page else ""
    for name in re.findall(r"^  (\S+)", section, re.M):
        if name != "help":
            known |= commands(binary, *path, name)
    return known


def options(page):
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", page, re.M))


def check():
    need(bash="bash", man="man-db", zsh="zsh", fish="fish")
    with tarball() as unpacked:
        known = commands(unpacked / "crocodile-pear")
        ensure(len(known) > 10, f"there are commands: {known}")
        scripts = unpacked / "completions"
        run("zsh", "-n", scripts / "crocodile-pear.zsh")
        run("fish", "--no-execute", scripts / "crocodile-pear.fish")
        for path, there in known.items():
            name = " ".join(path) or "the program"
            given = complete(scripts / "crocodile-pear.bash", *path, "--")
            ensure(given == there, f"bash completes {name}: {sorted(given ^ there)}")
            line = " ".join(["crocodile-pear", *path, "--"])
            fish = run("fish", "-c", f"source {scripts}/crocodile-pear.fish; complete -C '{line}'")
            given = {word.split("\t")[0] for word in fish.splitlines() if word.startswith("--")}
            ensure(given == there, f"fish completes {name}: {sorted(given ^ there)}")
            page = unpacked / "man" / f"{'-'.join(['crocodile-pear', *path])}.1"
            with tempfile.TemporaryFile("w+") as warnings:
                wide = os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
                text = run("man", "--warnings", "--local-file", page, env=wide, stderr=warnings)
                warnings.seek(0)
                told = warnings.read()
            ensure(not told, f"{page.name}: {told[:500]}")
            written = set(re.findall(r"--[a-z-]+", text))
            ensure(there <= written, f"{page.name} has no {sorted(there - written)}")
        names = {path[0] for path in known if path}
        ensure(complete(scripts / "crocodile-pear.bash", "") >= names, "bash completes the commands")
        index = run("man", "--local-file", unpacked / "man/crocodile-pear.1")
        ensure(all(name in index for name in names), "the manual has the commands")
        say(f"  {len(known)} commands, {sum(map(len, known.values()))} options")


def complete(script, *words):
    """What bash offers for the last word."""
    words, begun = ["crocodile-pear", *words], words[-1]
    body = f"""
        source {shlex.quote(str(script))}
        COMP_WORDS=({' '.join(map(shlex.quote, words))})
        COMP_CWORD={len(words) - 1}
        registered=$(complete -p crocodile-pear)
        function=${{registered##*-F }}
        ${{function%% *}} crocodile-pear {shlex.quote(begun)} {shlex.quote(words[-2])}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return {word for word in run("bash", "-c", body).split() if begun == "" or word.startswith("--")}
