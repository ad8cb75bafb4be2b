"""httpx or aiohttp: reads cases, asks the base URL, and prints what came of each as a line of JSON."""

import asyncio
import json
import sys

which, base = sys.argv[1:]


def cases():
    for line in sys.stdin.read().rstrip("\n").split("\n"):
        name, method, path, fields, size, framing, redirects = line.split("\t")
        fields = [tuple(field.split(": ", 1)) for field in fields.split("\x1f") if field]
        yield name, method, path, fields, None if size == "-" else int(size), framing, redirects == "follow"


async def pieces(size):
    for at in range(0, size, 10_000):
        yield b"y" * min(10_000, size - at)


def content(size, framing):
    if size is None:
        return None
    return pieces(size) if framing == "chunked" else b"y" * size


def listed(items):
    return [[name.lower(), value] for name, value in items]


async def by_httpx(http2):
    import httpx

    async with httpx.AsyncClient(http1=not http2, http2=http2, timeout=30) as client:
        for name, method, path, fields, size, framing, follow in cases():
            try:
                answer = await client.request(
                    method, base + path, headers=fields, content=content(size, framing), follow_redirects=follow
                )
            except httpx.HTTPError:
                print(json.dumps({"name": name, "error": True}))
                continue
            told = {"name": name, "status": answer.status_code, "fields": listed(answer.headers.multi_items())}
            print(json.dumps(told | {"body": answer.text, "at": answer.url.raw_path.decode()}))


async def by_aiohttp():
    import aiohttp

    async with aiohttp.ClientSession() as client:
        for name, method, path, fields, size, framing, follow in cases():
            try:
                async with client.request(
                    method, base + path, headers=fields, data=content(size, framing), allow_redirects=follow
                ) as answer:
                    body = await answer.text()
            except aiohttp.ClientError:
                print(json.dumps({"name": name, "error": True}))
                continue
            told = {"name": name, "status": answer.status, "fields": listed(answer.headers.items())}
            print(json.dumps(told | {"body": body, "at": answer.url.raw_path_qs}))


asyncio.run(by_aiohttp() if which == "aiohttp" else by_httpx(which == "httpx2"))
