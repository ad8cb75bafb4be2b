// The score of http-tests/cache-tests, with its own harness, against a gateway that keeps what it hands on.
//
//     git clone https://github.com/http-tests/cache-tests && npm install --prefix cache-tests --omit=dev
//     cargo build --profile dist
//     node bench/cache-tests.mjs cache-tests [endpoint|upstream] [target/dist/crocodile-pear]
//
// It starts the suite's server and the gateway on free ports, runs all tests, and prints the score and what failed.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [suite, place = 'endpoint', program = 'target/dist/crocodile-pear'] = process.argv.slice(2)
if (!suite) {
  console.error('usage: node bench/cache-tests.mjs SUITE [endpoint|upstream] [PROGRAM]')
  process.exit(2)
}

const load = path => import(pathToFileURL(join(resolve(suite), path)).href)

function freePort () {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

async function listening (port) {
  for (let attempt = 0; attempt < 200; attempt++) {
    const open = await new Promise(resolve => {
      const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
      socket.on('connect', () => socket.end())
    })
    if (open) return
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  throw new Error(`nothing listens on port ${port}`)
}

const [origin, port] = [await freePort(), await freePort()]
const folder = mkdtempSync(join(tmpdir(), 'cache-tests-'))
const cached = place === 'upstream'
const configuration = join(folder, 'gateway.yaml')
writeFileSync(configuration, JSON.stringify({
  listen: `127.0.0.1:${port}`,
  upstreams: { origin: { url: `http://127.0.0.1:${origin}`, forward: 'all', cache: cached ? 'on' : 'off' } },
  endpoints: { '/{*path}': { cache: cached ? 'off' : 'on', pipeline: [{ request: 'origin /{*path}?*' }] } }
}))

const environment = {
  ...process.env,
  npm_config_protocol: 'http',
  npm_config_port: `${origin}`,
  npm_config_pidfile: join(folder, 'server.pid')
}
const children = [
  spawn('node', ['test-engine/server/server.mjs'], { cwd: suite, env: environment, stdio: 'ignore' }),
  spawn(program, ['run', configuration], { stdio: ['ignore', 'ignore', 'inherit'] })
]

try {
  await Promise.all([listening(origin), listening(port)])
  const tests = (await load('tests/index.mjs')).default
  const { runTests, getResults } = await load('test-engine/client/runner.mjs')
  const { determineTestResult, resultTypes } = await load('test-engine/lib/results.mjs')
  await runTests(tests, false, `http://127.0.0.1:${port}`)
  const results = getResults()
  const counts = { required: [0, 0], optimal: [0, 0], check: [0, 0] }
  const failed = []
  const passes = [resultTypes.pass, resultTypes.yes]
  for (const test of tests.flatMap(suite => suite.tests).filter(test => !test.browser_only)) {
    const kind = test.kind ?? 'required'
    const result = determineTestResult(tests, test.id, results)
    // A check asks what a cache does: yes and no are both answers.
    const passed = passes.includes(result) || result === resultTypes.no
    counts[kind][0] += passed ? 1 : 0
    counts[kind][1] += 1
    const why = results[test.id] === true ? 'depends on another test' : results[test.id]?.[1]
    if (!passed) failed.push(`${kind}: ${test.id}: ${why}`)
    if (process.env.CHECKS && kind === 'check') console.log(`${result[2]} ${test.id}`)
  }
  for (const line of failed) console.log(line)
  for (const [kind, [passed, all]] of Object.entries(counts)) console.log(`${kind}: ${passed} of ${all}`)
} finally {
  for (const child of children) child.kill()
  rmSync(folder, { recursive: true })
}
process.exit()
