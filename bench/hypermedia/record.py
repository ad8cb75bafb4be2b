"""Records the answers of real servers for the tests in crates/crocodile-pear-gateway/tests/tasks/recorded.

    python3 record.py [--python PYTHON] [--json-server PROGRAM] [--spring JAR]

PYTHON has Django, djangorestframework and djangorestframework-jsonapi; PROGRAM is json-server 0.17; JAR is what `mvn package`
makes in the folder `spring` beside this file. A server that is not named is left as it was recorded. Each server is asked
for its first documents, and then for all that their links lead to, with the host `shop.internal`. What it answers replaces
the lines between `upstreams:` and `requests:` of its file.
"""

import argparse
import http.client
import json
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE.parent.parent / "crates/crocodile-pear-gateway/tests/tasks/recorded"
HOST = "shop.internal"
FIELDS = ["content-type", "link", "x-total-count", "etag", "last-modified", "cache-control", "vary", "location"]

# For each server: the first documents, and which links are followed.
SERVERS = {
    "django_json_api": (["/articles?include=author", "/articles/1?include=author,comments"], r"^/articles"),
    "json_server": (
        ["/posts?_page=1&_limit=4", *[f"/users/{number}" for number in [2, 3, 4, 5]]],
        r"^/posts\?_page",
    ),
    "spring_data_rest": (
        ["/orders?size=4", "/customers/1", "/customers/3", "/orders/search", "/orders/search/findByState?state=shipped"],
        r"^/(orders|customers/[13]|orderItems/\d+/product|products|profile$)",
    ),
}


def free():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(name, options, folder):
    port = free()
    if name == "django_json_api" and options.python:
        return port, [options.python, HERE / "json_api_server.py", str(port), folder, "12"]
    if name == "json_server" and options.json_server:
        posts = [{"id": number, "title": f"Post {number}", "userId": number % 4 + 2} for number in range(1, 11)]
        users = [{"id": number, "name": f"User {number}"} for number in range(1, 9)]
        data = Path(folder) / "db.json"
        data.write_text(json.dumps({"posts": posts, "users": users}))
        return port, [options.json_server, "--quiet", "--host", "127.0.0.1", "--port", str(port), data]
    if name == "spring_data_rest" and options.spring:
        return port, ["java", "-jar", options.spring, f"--server.port={port}", "--server.address=127.0.0.1"]
    return port, None


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"host": HOST, "accept": "*/*"})
    answer = connection.getresponse()
    return answer.status, dict((name.lower(), value) for name, value in answer.getheaders()), answer.read().decode()


def record(port, first, followed):
    found, waiting = {}, list(first)
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        status, fields, body = get(port, path)
        found[path] = (status, {name: fields[name] for name in FIELDS if name in fields}, body)
        links = re.findall(rf'http://{re.escape(HOST)}(/[^"<>{{}}\s]*)(?=["<>])', body + fields.get("link", ""))
        waiting += [link for link in links if re.search(followed, link) and link not in found]
        if len(found) > 200:
            raise SystemExit(f"more than 200 documents from {first}")
    return found


def write(name, found):
    file = RECORDED / f"{name}.yaml"
    lines = ["upstreams:", "  shop:"]
    for path, (status, fields, body) in sorted(found.items()):
        fields = ", ".join(f"{key}: {json.dumps(value)}" for key, value in fields.items())
        lines.append(f"    {json.dumps(path)}: {{ status: {status}, headers: {{ {fields} }}, body: {json.dumps(body)} }}")
    text = file.read_text()
    head, rest = text.split("\nupstreams:\n", 1)
    rest = rest[rest.index("requests:\n"):]
    file.write_text("\n".join([head, *lines, rest]))
    print(f"{name}: {len(found)} documents")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ["python", "json-server", "spring"]:
        parser.add_argument(f"--{option}")
    options = parser.parse_args()
    for name, (first, followed) in SERVERS.items():
        with tempfile.TemporaryDirectory() as folder:
            port, command = start(name, options, folder)
            if not command:
                print(f"{name}: skipped")
                continue
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                for _ in range(600):
                    try:
                        get(port, first[0])
                        break
                    except OSError:
                        time.sleep(0.2)
                write(name, record(port, first, followed))
            finally:
                server.terminate()
                server.wait()


main()
