// The browser's fetch, on a page of the same origin. `lines` are the cases.
(async (lines) => {
  const told = [];
  for (const line of lines) {
    const [name, method, path, fields, size, , redirects] = line.split('\t');
    const init = { method, redirect: redirects === 'follow' ? 'follow' : 'manual', cache: 'no-store' };
    init.headers = fields ? fields.split('\x1f').map((field) => field.split(': ')) : [];
    if (size !== '-') init.body = 'y'.repeat(Number(size));
    try {
      const answer = await fetch(path, init);
      const body = await answer.text();
      const { pathname, search } = answer.url ? new URL(answer.url) : { pathname: '', search: '' };
      told.push({ name, status: answer.status, fields: [...answer.headers], body, at: pathname + search });
    } catch {
      told.push({ name, error: true });
    }
  }
  return told;
})
