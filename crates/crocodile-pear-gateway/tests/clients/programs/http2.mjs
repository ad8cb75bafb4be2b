// Node's http2: reads cases, asks the base URL over one connection, and prints what came of each as a line of JSON.
import { readFileSync } from 'node:fs';
import { connect } from 'node:http2';

const [base] = process.argv.slice(2);
const session = connect(base);
session.on('error', () => {});

const list = (headers) =>
  Object.entries(headers).flatMap(([name, value]) =>
    name.startsWith(':') ? [] : [value].flat().map((value) => [name, String(value)]),
  );

function ask([name, method, path, fields, size, framing]) {
  return new Promise((done) => {
    const told = { name, interim: [], trailers: [], body: '' };
    const headers = { ':method': method, ':path': path };
    for (const field of fields ? fields.split('\x1f') : []) {
      const [name, value] = field.split(': ');
      headers[name] = name in headers ? [headers[name], value].flat() : value;
    }
    if (size !== '-' && framing !== 'chunked') headers['content-length'] = size;
    const stream = session.request(headers, { endStream: size === '-' });
    stream.setEncoding('latin1');
    stream.on('headers', (headers) => told.interim.push(headers[':status']));
    stream.on('response', (headers) => Object.assign(told, { status: headers[':status'], fields: list(headers) }));
    stream.on('trailers', (headers) => (told.trailers = list(headers)));
    stream.on('data', (data) => (told.body += data));
    stream.on('error', () => done({ name, error: true }));
    stream.on('close', () => done(told.status ? told : { name, error: true }));
    if (size !== '-') {
      for (let left = Number(size); left > 0; left -= 10_000) stream.write('y'.repeat(Math.min(left, 10_000)));
      stream.end();
    }
  });
}

for (const line of readFileSync(0, 'utf8').trimEnd().split('\n')) {
  console.log(JSON.stringify(await ask(line.split('\t'))));
}
session.close();
