const COUNT = 60;
const form = document.querySelector('form');
const verdict = document.getElementById('verdict');
const time = ms => `${Math.round(ms).toLocaleString('en')} ms`;

// One way to load, as it is seen: figures, a bar for each picture, the pictures.
class Side {
  constructor(name) {
    this.name = name;
    const section = document.getElementById(name);
    const find = part => section.querySelector(part);
    this.parts = { first: find('.first'), last: find('.last'), count: find('.count'), scale: find('.scale') };
    this.timeline = find('.timeline');
    this.pictures = find('.pictures');
    this.reset();
  }

  reset() {
    this.came = [];
    this.parts.first.textContent = this.parts.last.textContent = '–';
    this.parts.count.textContent = '0';
    this.timeline.replaceChildren();
    this.pictures.replaceChildren(...Array.from({ length: COUNT }, () => document.createElement('span')));
  }

  begin() {
    this.began = performance.mark(`${this.name} begins`).startTime;
  }

  // A picture that can be seen now; it was asked for at this time of the page.
  show(number, image, asked) {
    const cell = this.pictures.children[number - 1];
    if (!cell || cell.hasChildNodes()) return;
    const now = performance.now();
    cell.className = '';
    cell.replaceChildren(image);
    // Where whoever measures finds it, be it a person with the browser's tools or a program.
    performance.measure(`${this.name} ${number}`, { start: asked, end: now });
    const bar = document.createElement('i');
    const place = { '--row': this.came.length, '--asked': asked - this.began, '--came': now - this.began };
    Object.entries(place).forEach(([name, value]) => bar.style.setProperty(name, value));
    this.timeline.append(bar);
    this.came.push(now - this.began);
    this.parts.first.textContent = time(this.first);
    this.parts.last.textContent = time(this.last);
    this.parts.count.textContent = this.came.length;
    widen(this.last);
  }

  fail(number) {
    this.pictures.children[number - 1].className = 'failed';
  }

  // What has not come by now does not come.
  end() {
    [...this.pictures.children].forEach((cell, place) => cell.hasChildNodes() || this.fail(place + 1));
    const { length } = this.came;
    this.pictures.ariaLabel = `${length} of ${COUNT} pictures`;
    this.timeline.ariaLabel = length ? `The first came after ${time(this.first)}, the last after ${time(this.last)}` : 'Nothing came';
  }

  get first() { return this.came[0]; }
  get last() { return this.came.at(-1); }
  get whole() { return this.came.length === COUNT; }
}

const sides = { many: new Side('many'), one: new Side('one') };
let scale = 0;

// Both sides have the same scale: it is the difference that one should see.
function widen(ms, exactly = false) {
  if (ms <= scale && !exactly) return;
  scale = ms * 1.02;
  document.querySelector('main').style.setProperty('--scale', scale);
  Object.values(sides).forEach(side => { side.parts.scale.textContent = time(scale); });
}

async function many(side, latency, signal) {
  side.begin();
  const load = async number => {
    const image = new Image();
    const url = new URL(`pictures/${number}?latency=${latency}&run=${Math.round(side.began)}`, location).href;
    signal.addEventListener('abort', () => image.removeAttribute('src'));
    image.src = url;
    try {
      await image.decode();
    } catch {
      if (!signal.aborted) side.fail(number);
      return;
    }
    if (signal.aborted) return;
    // The browser knows when it sent the request; until then it waited for a connection.
    const [entry] = performance.getEntriesByName(url);
    side.show(number, image, Math.max(entry?.requestStart ?? 0, side.began));
  };
  await Promise.all(Array.from({ length: COUNT }, (_, index) => load(index + 1)));
}

async function one(side, latency, signal) {
  side.begin();
  const response = await fetch(`gallery?latency=${latency}`, { cache: 'no-store', signal });
  if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const shown = [];
  const show = async line => {
    // What failed says why, and not which picture it would have been: it is seen at the end, as what did not come.
    const { id, data } = JSON.parse(line);
    if (!data) return;
    const image = new Image();
    image.src = data;
    await image.decode().catch(() => {});
    if (!signal.aborted && image.naturalWidth) side.show(id, image, side.began);
  };
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      shown.push(...lines.map(show));
    }
  } finally {
    await Promise.allSettled(shown);
  }
}

function judge({ many, one }, faults) {
  if (!faults.length && many.whole && one.whole) {
    const ratio = many.last / one.last;
    const how = ratio >= 1.1 ? `${ratio.toFixed(1)} times as fast` : ratio > 0.9 ? 'as fast as that' : `${(1 / ratio).toFixed(1)} times as slow`;
    return `One by one they took ${time(many.last)}, in one request ${time(one.last)}: ${how}.`;
  }
  const count = side => `${side.came.length} of ${COUNT}`;
  return [`One by one ${count(many)} came, in one request ${count(one)}`, ...faults].join('; ') + '.';
}

let run = new AbortController();

async function load(latency) {
  run.abort();
  run = new AbortController();
  const { signal } = run;
  // The browser keeps 250 entries, which a few runs would fill.
  performance.clearResourceTimings();
  performance.clearMarks();
  performance.clearMeasures();
  Object.values(sides).forEach(side => side.reset());
  // Ten waves, and something for the way: a guess until it is known.
  widen(latency * 11 + 100, true);
  const faults = [];
  for (const [name, way, how] of [['many', many, 'one by one'], ['one', one, 'in one request']]) {
    verdict.textContent = `Loading ${how} …`;
    await way(sides[name], latency, signal).catch(error => faults.push(error.message));
    if (signal.aborted) return;
    sides[name].end();
  }
  widen(Math.max(sides.many.last ?? 0, sides.one.last ?? 0, 1), true);
  verdict.textContent = judge(sides, faults);
  // For who measures.
  const told = ({ first, last, came }) => ({ first: Math.round(first), last: Math.round(last), pictures: came.length });
  console.info(JSON.stringify({ latency, many: told(sides.many), one: told(sides.one) }));
}

form.addEventListener('submit', event => {
  event.preventDefault();
  history.replaceState(null, '', `?latency=${form.latency.value}`);
  load(form.latency.valueAsNumber);
});
const wanted = new URLSearchParams(location.search).get('latency');
if (wanted) form.latency.value = wanted;
if (form.checkValidity()) load(form.latency.valueAsNumber);
else verdict.textContent = `“${wanted}” is no latency: wanted is a whole number of milliseconds, from 0 to 10,000.`;
