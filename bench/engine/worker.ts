/** A process that measures one workload on one backend of TensorFlow.js: see `messages.ts`. Its argument is a `Job` as JSON. */
import { createInterface } from 'node:readline'
import { activeRecordingBackend } from '@tandem-rl/tfjs-onnxruntime'
import { type Backend, loadBackend } from './backend.js'
import { makeBody } from './bodies.js'
import { MARK, type Message } from './messages.js'
import type { Workload } from './workloads.js'

export interface Job {
  readonly backend: Backend
  readonly threads: number
  readonly modules?: string
  readonly workload: Workload
}

/** A first run that takes longer needs no second one to warm up. */
const SLOW_SECONDS = 10

const say = (message: Message): void => void process.stdout.write(`${MARK}${JSON.stringify(message)}\n`)

const timed = <T>(f: () => T): { readonly seconds: number; readonly result: T } => {
  const started = performance.now()
  const result = f()
  return { seconds: (performance.now() - started) / 1000, result }
}

/** Graphs compiled and kernels run elsewhere so far; undefined on a backend that does not record. */
const countsNow = (): { readonly compiles: number; readonly fallbacks: number } | undefined => {
  const stats = activeRecordingBackend()?.stats()
  return (
    stats && {
      compiles: stats.compiles,
      fallbacks: Object.values(stats.fallbacks).reduce((sum, count) => sum + count, 0),
    }
  )
}

const main = async (): Promise<void> => {
  const job = JSON.parse(process.argv[2] ?? '{}') as Job // written by the parent process
  const { version, threads, settle } = await loadBackend(job.backend, job.threads, job.modules)
  const body = makeBody(job.workload, settle)
  const first = timed(body.value)
  const warm = first.seconds > SLOW_SECONDS ? first : timed(body.run)
  say({
    tag: 'Ready',
    version,
    threads,
    value: first.result,
    firstSeconds: first.seconds,
    warmSeconds: warm.seconds,
  })
  const before = countsNow()
  for await (const line of createInterface({ input: process.stdin })) {
    const [word, limit, most] = line.split(' ')
    if (word === 'end') break
    const started = performance.now()
    const seconds: number[] = []
    while (
      seconds.length === 0 ||
      (performance.now() - started < Number(limit) * 1000 && seconds.length < Number(most))
    ) {
      seconds.push(timed(body.run).seconds)
    }
    say({ tag: 'Turn', seconds })
  }
  const after = countsNow()
  say({
    tag: 'End',
    peakMiB: process.resourceUsage().maxRSS / 1024,
    ...(before === undefined || after === undefined
      ? {}
      : { compiles: after.compiles - before.compiles, fallbacks: after.fallbacks - before.fallbacks }),
  })
}

try {
  await main()
} catch (error) {
  say({ tag: 'Failed', problem: error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error) })
}
process.exit()
