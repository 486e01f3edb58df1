/**
 * Measures concurrent rollouts of `LLMCollector`: rollouts per second, processor time of one, and
 * memory, with a scripted policy that takes no time or some.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem } from 'node:os'
import { dirname, relative } from 'node:path'
import { host } from '@tandem-rl/base/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { Command } from 'commander'
import { type CollectResults, collectChart, collectPage } from './collecting/page.js'
import { type Figures, measure, memoryOf } from './collecting/runs.js'

const numbers = (text: string): readonly number[] => text.split(',').map(Number)

const PICTURE = 'docs/images/collect.svg'

const options = new Command()
  .description('Plays conversations of one turn against a scripted policy.')
  .option('--latency <ms>', 'what the policy takes for a turn', numbers, [0, 50])
  .option('--in-flight <n>', 'conversations at a time', numbers, [1, 10, 100, 1000, 10_000])
  .option('--runs <n>', 'runs of which the median is told', Number, 5)
  .option('--most <n>', 'conversations of a run at most', Number, 20_000)
  .option('--long <n>', 'conversations of the run whose memory is read', Number, 200_000)
  .option('--json <file>', 'writes all figures to a file')
  .option('--page <file>', `writes them as a page, with ${PICTURE}`)
  .parse()
  .opts<{
    readonly latency: readonly number[]
    readonly inFlight: readonly number[]
    readonly runs: number
    readonly most: number
    readonly long: number
    readonly json?: string
    readonly page?: string
  }>()

const write = (file: string, text: string): void => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

await selectBackend()
console.log(JSON.stringify(host()))
const before = loadavg()[0]!
const figures: Figures[] = []
for (const latencyMs of options.latency) {
  for (const inFlight of options.inFlight) {
    // One after the other with a wait each, a few are enough; many at a time are played twice over.
    const rollouts = Math.min(options.most, Math.max(2 * inFlight, latencyMs > 0 ? 20 * inFlight : 2000, 20))
    figures.push(await measure({ rollouts, inFlight, latencyMs }, options.runs))
    console.log(JSON.stringify(figures.at(-1)))
  }
}
const longest = {
  rollouts: options.long,
  inFlight: Math.max(...options.inFlight),
  latencyMs: Math.max(...options.latency),
}
const memory = await memoryOf(longest, 11)
for (const reading of memory) console.log(JSON.stringify(reading))
const results: CollectResults = {
  machine: `${cpus()[0]?.model ?? 'unknown'}, ${host().cores} cores, ${Math.round(totalmem() / 2 ** 30)} GiB of memory, Linux ${release()}, Node ${process.version}`,
  date: new Date().toISOString().slice(0, 10),
  load: [before, loadavg()[0]!],
  runs: options.runs,
  figures,
  memory,
}
if (options.json !== undefined) write(options.json, `${JSON.stringify(results, null, 2)}\n`)
if (options.page !== undefined) {
  write(PICTURE, collectChart(results))
  write(options.page, collectPage(results, relative(dirname(options.page), PICTURE)))
}
