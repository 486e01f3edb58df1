/**
 * Measures `tandem view` on a run folder: the server without and with its index, and the page.
 *
 *     npm run bench -- view [RUN_FOLDER]
 *
 * Without a folder, it measures a synthetic run with 200,000 rollouts. It deletes the folder's
 * index first. Times are wall-clock milliseconds; memory is the resident memory of the server's
 * process, and the heap of the page after a garbage collection.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { writeBigRun } from './viewing/bigRun.js'

const [given] = process.argv.slice(2)
const temporary = mkdtempSync(join(tmpdir(), 'tandem-view-'))
const folder = given ?? join(temporary, 'run')
if (given === undefined) await writeBigRun(folder)
const say = (name: string, value: number, unit = 'ms'): void => {
  process.stdout.write(`${name.padEnd(44)} ${value.toFixed(value < 100 ? 1 : 0)} ${unit}\n`)
}

const MAIN = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))

/** Starts the viewer on a free port. */
const start = async (): Promise<{ readonly child: ChildProcess; readonly origin: string }> => {
  const child = spawn(process.execPath, ['--import', 'tsx', MAIN, 'view', folder, '--port', '0'], { stdio: 'pipe' })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { child, origin: /http:\/\/[\w.:]+/.exec(line.toString())![0] }
}

const stop = async ({ child }: { readonly child: ChildProcess }): Promise<void> => {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

const residentMB = ({ pid }: ChildProcess): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024

const timed = async (name: string, run: () => Promise<unknown>): Promise<void> => {
  const from = performance.now()
  await run()
  say(name, performance.now() - from)
}

const get = async (address: string): Promise<unknown> => (await fetch(address)).json()

const measureServer = async (title: string): Promise<void> => {
  const server = await start()
  const runs = `${server.origin}/api/runs`
  const [{ id }] = ((await get(runs)) as { runs: [{ id: string }] }).runs
  const list = `${runs}/${id}/rollouts`
  await timed(`${title}: first rollouts`, () => get(list))
  await timed(`${title}: rollouts again`, () => get(list))
  await timed(`${title}: filter by reward`, () => get(`${list}?minReward=1`))
  await timed(`${title}: sort by length`, () => get(`${list}?sort=length&order=desc`))
  say(`${title}: memory of the server`, residentMB(server.child), 'MB')
  await timed(`${title}: text in few rollouts`, () => get(`${list}?q=after%20step%201999%3F`))
  await timed(`${title}: text in all rollouts`, () => get(`${list}?q=apples`))
  await timed(`${title}: overview`, () => get(`${runs}/${id}`))
  say(`${title}: memory after the searches`, residentMB(server.child), 'MB')
  await stop(server)
}

/** Medians of the frames while the list of rollouts scrolls for two seconds. */
const FRAMES = `new Promise((resolve) => {
  const scroller = document.querySelector('[role="grid"], .vlist, .virtual, main [tabindex]') ?? document.scrollingElement
  const times = []
  let last = performance.now()
  const frame = (now) => {
    times.push(now - last)
    last = now
    scroller.scrollTop += 400
    if (times.length < 120) requestAnimationFrame(frame)
    else resolve(times.slice(2).sort((a, b) => a - b))
  }
  requestAnimationFrame(frame)
})`

const measurePage = async (): Promise<void> => {
  const server = await start()
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] })
  const page = await browser.newPage()
  const { id } = ((await get(`${server.origin}/api/runs`)) as { runs: [{ id: string }] }).runs[0]
  const open = (hash: string): Promise<unknown> => page.goto(`${server.origin}/#/run/${id}${hash}`)
  await page.goto(server.origin)
  await page.waitForFunction('performance.getEntriesByName("first-contentful-paint").length > 0')
  const paint = 'performance.getEntriesByName("first-contentful-paint")[0].startTime'
  say('page: first paint', Number(await page.evaluate(paint)))
  await timed('page: overview to the first curve', async () => {
    await open('')
    await page.locator('canvas').first().waitFor()
  })
  await timed('page: rollouts to the first row', async () => {
    await open('/rollouts')
    await page.getByText('Tom has').first().waitFor()
  })
  const frames = (await page.evaluate(FRAMES)) as readonly number[]
  say('page: frame while scrolling, median', frames[Math.floor(frames.length / 2)]!)
  say('page: frame while scrolling, 95th percentile', frames[Math.floor(frames.length * 0.95)]!)
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  say('page: heap', ((await session.send('Runtime.getHeapUsage')) as { usedSize: number }).usedSize / 2 ** 20, 'MB')
  await browser.close()
  await stop(server)
}

process.stdout.write(
  `${cpus()[0]?.model} x ${cpus().length}, Node ${process.version}, load ${loadavg()[0]!.toFixed(1)}\n`,
)
rmSync(`${folder}/.view`, { recursive: true, force: true })
try {
  await measureServer('without index')
  await measureServer('with index')
  await measurePage()
} finally {
  rmSync(temporary, { recursive: true })
}
