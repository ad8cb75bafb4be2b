// Node's fetch: reads cases, asks the base URL, and prints what came of each as a line of JSON.
import { readFileSync } from 'node:fs';

const [base] = process.argv.slice(2);
for (const line of readFileSync(0, 'utf8').trimEnd().split('\n')) {
  const [name, method, path, fields, size, framing, redirects] = line.split('\t');
  const init = { method, redirect: redirects === 'follow' ? 'follow' : 'manual' };
  init.headers = fields ? fields.split('\x1f').map((field) => field.split(': ')) : [];
  if (size !== '-') {
    const bytes = new TextEncoder().encode('y'.repeat(Number(size)));
    const pieces = new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += 10_000) controller.enqueue(bytes.slice(at, at + 10_000));
        controller.close();
      },
    });
    init.body = framing === 'chunked' ? pieces : bytes;
    init.duplex = 'half';
  }
  try {
    const answer = await fetch(base + path, init);
    const body = await answer.text();
    const { pathname, search } = new URL(answer.url);
    console.log(JSON.stringify({ name, status: answer.status, fields: [...answer.headers], body, at: pathname + search }));
  } catch {
    console.log(JSON.stringify({ name, error: true }));
  }
}
