"""the binary is static, stripped and small, and serves a TLS upstream by name from a root that holds nothing else"""

import os
import shutil
import struct

from .machine import ask, certify, ensure, folder, name_server, need, need_namespaces, network, process, run, say, serve
from .machine import tarball, until

# What the binary may take on a disk, for the profile `dist`: a little more than it does.
LARGEST = 28_000_000

CONFIGURATION = """\
listen: 127.0.0.1:8080
upstreams:
  shop: { url: 'https://shop.example:8443', tls: { ca: /certificate.pem } }
endpoints:
  GET /{*path}: shop /{*path}?*
"""


def segments(binary):
    """The types of the segments of an ELF file, and the number of its sections."""
    head = binary[:64]
    ensure(head[:5] == b"\x7fELF\x02", "the binary is a 64-bit ELF file")
    offset, _, _, _, size, count, _, sections, _ = struct.unpack("<QQIHHHHHH", head[32:64])
    types = [struct.unpack("<I", binary[offset + size * at : offset + size * at + 4])[0] for at in range(count)]
    return types, sections


def check():
    need(unshare="util-linux", chroot="coreutils", openssl="openssl")
    with tarball() as unpacked:
        path = unpacked / "crocodile-pear"
        content = path.read_bytes()
        types, _ = segments(content)
        # PT_INTERP names the dynamic loader.
        ensure(3 not in types, "the binary asks for a dynamic loader")
        ensure(b".symtab" not in content[-65536:], "the binary has symbols")
        say(f"  {len(content):,} bytes, {run(path, '--version').strip()}")
        ensure(os.environ.get("PROFILE", "dist") != "dist" or len(content) <= LARGEST, f"the limit is {LARGEST:,} bytes")
        ensure(b"dep-v0" in content or os.environ.get("AUDITABLE") == "no", "the list of dependencies is in the binary")
        need_namespaces()
        with folder() as root, network():
            certificate, key = certify(root, "shop.example")
            serve(8443, certificate, key)
            os.remove(key)
            name_server({"shop.example": "127.0.0.1"})
            (root / "etc").mkdir()
            (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
            (root / "gateway.yaml").write_text(CONFIGURATION)
            shutil.copy(path, root / "crocodile-pear")
            log = root.with_suffix(".log")
            command = ["unshare", "--pid", "--fork", "--kill-child", "chroot", root, "/crocodile-pear", "run", "/gateway.yaml"]
            with process(command, log):
                until("the gateway listens", lambda: ask(8080, "/first"), log)
                ensure(ask(8080, "/item?a=1") == (200, '{"path":"/item?a=1"}'), log.read_text())
            log.unlink()
