/**
 * Measures generation under load: tokens per second, time to the first token and time between
 * tokens at several numbers of concurrent requests of mixed lengths, for an engine in this thread
 * and the same one on a thread of its own.
 *
 * The engine comes from a module (`--module FILE --export NAME --options JSON`): a function
 * `(options) => TaskEither<Failure, LLMEngine>`.
 */
import { resolve } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { pathToFileURL } from 'node:url'
import { type Failure, orThrow } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import type { LLMEngine } from '@tandem-rl/text'
import { Command } from 'commander'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { LLMOnDevice } from '../src/modules/generation/onDevice.js'
import { type LoadResult, type MixOptions, mixedRequests, runLoad } from './shared/engineLoad.js'

interface ThroughputOptions extends MixOptions {
  readonly module: string
  readonly export: string
  readonly options: string
  readonly concurrency: string
  readonly requests: number
  readonly table?: boolean
}

const PLACES = ['in process', 'on a thread'] as const

const options = new Command()
  .description('Measures an engine at several numbers of concurrent requests, in process and on a thread.')
  .requiredOption('--module <file>', 'module that exports the function that makes the engine')
  .requiredOption('--export <name>', 'name of the function')
  .option('--options <json>', 'its argument', '{}')
  .option('--concurrency <list>', 'numbers of concurrent requests', '1,8,64,256')
  .option('--requests <n>', 'requests for each concurrent one', Number, 2)
  .option('--shortest <n>', 'shortest prompt and completion', Number, 8)
  .option('--longest <n>', 'longest prompt and completion', Number, 256)
  .option('--seed <n>', 'of lengths, prompts and samples', Number, 0)
  .option('--table', 'print a table for the documentation at the end')
  .parse()
  .opts<ThroughputOptions>()

const module = pathToFileURL(resolve(options.module)).href

const makeEngine = async (place: (typeof PLACES)[number]): Promise<LLMEngine> => {
  const argument: unknown = JSON.parse(options.options)
  if (place === 'on a thread') {
    return orThrow(await LLMOnDevice({ module, exportName: options.export, options: argument })())
  }
  const exported: Readonly<Record<string, unknown>> = await import(module)
  const make = exported[options.export] as (options: unknown) => TaskEither<Failure, LLMEngine> // as --export promises
  return orThrow(await make(argument)())
}

interface Line extends LoadResult {
  readonly place: string
  readonly concurrency: number
  /** Delay of the event loop of this thread: what a server's other work would wait. */
  readonly loopDelayMs: { readonly p50: number; readonly p99: number; readonly max: number }
}

const measure = async (engine: LLMEngine, place: string, concurrency: number): Promise<Line> => {
  const mix = { ...options, vocabulary: engine.info.vocabularySize }
  await runLoad(engine, mixedRequests(`warm-up ${concurrency}`, Math.min(concurrency, 8), mix), concurrency)
  const requests = mixedRequests(`${concurrency}`, concurrency * options.requests, mix)
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const result = await runLoad(engine, requests, concurrency)
  delay.disable()
  const loopDelayMs = { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 }
  return { place, concurrency, ...result, loopDelayMs }
}

const row = ({ place, concurrency, tokensPerSecond, firstTokenMs, betweenTokensMs, loopDelayMs }: Line): string =>
  `| ${[place, concurrency, ...[tokensPerSecond, firstTokenMs.p50, firstTokenMs.p99, betweenTokensMs.p50, betweenTokensMs.p99, loopDelayMs.p99].map((x) => x.toPrecision(3))].join(' | ')} |`

const lines: Line[] = []
for (const place of PLACES) {
  const engine = await makeEngine(place)
  try {
    for (const concurrency of options.concurrency.split(',').map(Number)) {
      const line = await measure(engine, place, concurrency)
      lines.push(line)
      console.log(JSON.stringify({ program: 'engineThroughput', ...line, ...host() }))
    }
  } finally {
    await engine.close()
  }
}
if (options.table === true) {
  console.log(
    '| Engine | Requests | Tokens/s | First token p50, ms | p99 | Next token p50, ms | p99 | Event loop p99, ms |',
  )
  console.log(`|---${'|--:'.repeat(7)}|`)
  for (const line of lines) console.log(row(line))
}
