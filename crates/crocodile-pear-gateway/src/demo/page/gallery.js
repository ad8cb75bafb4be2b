const COUNT = 60;
const form = document.querySelector('form');
const sides = Object.fromEntries(['many', 'one'].map(id => [id, new Side(document.getElementById(id))]));

function Side(section) {
  const [first, last] = section.querySelectorAll('dd');
  const timeline = section.querySelector('.timeline');
  const pictures = section.querySelector('.pictures');
  let began = 0;
  let marks = [];

  this.begin = () => {
    marks = [];
    first.textContent = last.textContent = '–';
    timeline.replaceChildren();
    pictures.replaceChildren(...Array.from({ length: COUNT }, () => document.createElement('span')));
    began = performance.now();
  };
  this.now = () => performance.now() - began;
  this.draw = (number, image, asked) => {
    pictures.children[number - 1].replaceChildren(image);
    const came = this.now();
    marks.push({ asked, came });
    if (marks.length === 1) first.textContent = time(came);
    last.textContent = time(came);
    return came;
  };
  this.total = () => Math.max(...marks.map(mark => mark.came));
  this.first = () => Math.min(...marks.map(mark => mark.came));
  // Both sides have the same scale: it is the difference that one should see.
  this.chart = scale => {
    marks.sort((one, other) => one.came - other.came);
    timeline.replaceChildren(...marks.map(({ asked, came }, row) => {
      const bar = document.createElement('i');
      bar.style.top = `${2 + row * 2}px`;
      bar.style.left = `${100 * asked / scale}%`;
      bar.style.width = `${100 * (came - asked) / scale}%`;
      return bar;
    }));
  };
}

const time = ms => `${Math.round(ms).toLocaleString('en')} ms`;

async function many(latency, run) {
  const side = sides.many;
  side.begin();
  await Promise.all(Array.from({ length: COUNT }, async (_, index) => {
    const image = new Image();
    const url = `pictures/${index + 1}?latency=${latency}&run=${run}`;
    image.src = url;
    await image.decode();
    // The browser knows when it sent the request; until then it waited for a connection.
    const entry = performance.getEntriesByName(new URL(url, location).href)[0];
    const waited = entry ? entry.requestStart - entry.startTime : 0;
    side.draw(index + 1, image, waited);
  }));
}

async function one(latency) {
  const side = sides.one;
  side.begin();
  const response = await fetch(`gallery?latency=${latency}`, { cache: 'no-store' });
  if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const { id, data, title } of lines.map(line => JSON.parse(line)).filter(item => item.data)) {
      const image = new Image();
      image.alt = title;
      image.src = data;
      side.draw(id, image, 0);
    }
  }
}

async function load() {
  const latency = new FormData(form).get('latency');
  const button = form.querySelector('button');
  const verdict = document.getElementById('verdict');
  button.disabled = true;
  verdict.textContent = 'Loading …';
  sides.one.begin();
  try {
    await many(latency, Date.now());
    await one(latency);
    const totals = [sides.many.total(), sides.one.total()];
    const scale = Math.max(...totals) * 1.02;
    sides.many.chart(scale);
    sides.one.chart(scale);
    verdict.textContent = `${(totals[0] / totals[1]).toFixed(1)} times as fast in one request.`;
    // For who measures.
    console.info(JSON.stringify({
      latency: Number(latency),
      many: { first: Math.round(sides.many.first()), last: Math.round(totals[0]) },
      one: { first: Math.round(sides.one.first()), last: Math.round(totals[1]) },
    }));
  } catch (error) {
    verdict.textContent = `It did not load: ${error.message}`;
  }
  button.disabled = false;
}

form.addEventListener('submit', event => { event.preventDefault(); load(); });
form.latency.addEventListener('change', load);
const wanted = new URLSearchParams(location.search).get('latency');
if ([...form.latency.options].some(option => option.value === wanted)) form.latency.value = wanted;
load();
