/**
 * Feeds hostile inputs to servers, readers, templates, tokenizers, patterns and arguments for some
 * minutes: `npm run verify -- fuzz --minutes 10`.
 *
 * Inputs are texts of `test/fuzz/corpus` with random changes, for each target of
 * `test/fuzz/targets.ts` in turn, in a separate process. An input that throws, crashes the
 * process, or takes more than a second is a failure. It is added to the target's corpus, which the
 * tests run. The exit code is 1 if there was a failure.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { child, keyFromSeed } from '@tandem-rl/base'
import { mutated } from '../../test/fuzz/mutate.js'
import { corpusFolder, corpusOf, TARGETS } from '../../test/fuzz/targets.js'

/** CPU time above which an input counts as a stall. */
const STALL_MS = 1000

/** Time after which the process is killed. */
const HANG_MS = 20_000

/** Inputs of a target before the next target's turn. */
const TURN = 50

interface Result {
  readonly ms: number
  readonly problem: string | null
}

/** Runs inputs that the parent sends, one at a time. */
const serveInputs = (): void => {
  process.on('message', async ({ name, input }: { readonly name: string; readonly input: string }) => {
    const began = process.cpuUsage()
    let problem: string | null = null
    try {
      await TARGETS[name]!(input)
    } catch (error) {
      problem = error instanceof Error ? (error.stack ?? error.message) : String(error)
    }
    const { user, system } = process.cpuUsage(began) // CPU time, so that load of other processes does not count
    process.send!({ ms: (user + system) / 1000, problem } satisfies Result)
  })
  process.send!('ready')
}

/** Manages the process that runs inputs, and restarts it after a hang or a crash. */
const reader = () => {
  let running: ChildProcess | undefined
  const start = async (): Promise<ChildProcess> => {
    running = fork(fileURLToPath(import.meta.url), ['--reader'], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    await once(running, 'message') // loaded; loading takes longer than the limit of an input
    return running
  }
  return {
    read: async (name: string, input: string): Promise<Result> => {
      const process = running ?? (await start())
      return new Promise((resolve) => {
        const settle = (result: Result): void => {
          clearTimeout(timer)
          process.removeAllListeners()
          resolve(result)
        }
        const lose = (problem: string): void => {
          running = undefined
          process.kill('SIGKILL')
          settle({ ms: HANG_MS, problem })
        }
        const timer = setTimeout(() => lose(`no end within ${HANG_MS} ms`), HANG_MS)
        process.once('message', (result) => settle(result as Result)) // sent by `serveInputs`
        process.once('exit', (code, signal) => lose(`the process ended with ${code ?? signal}`))
        process.send({ name, input })
      })
    },
    close: () => running?.kill(),
  }
}

const fuzz = async (): Promise<void> => {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string', default: String(Date.now()) },
      target: { type: 'string', multiple: true, default: Object.keys(TARGETS) },
    },
  })
  const unknown = values.target.filter((name) => !(name in TARGETS))
  if (unknown.length > 0) throw new RangeError(`no target ${unknown.join()}: there are ${Object.keys(TARGETS).join()}`)
  const until = Date.now() + Number(values.minutes) * 60_000
  const key = keyFromSeed(Number(values.seed))
  const read = reader()
  const counts = new Map<string, { inputs: number; failures: number; slowest: number }>()
  for (let turn = 0; Date.now() < until; turn++) {
    const name = values.target[turn % values.target.length]!
    const corpus = corpusOf(name)
    const count = counts.get(name) ?? { inputs: 0, failures: 0, slowest: 0 }
    counts.set(name, count)
    for (let i = 0; i < TURN && Date.now() < until; i++) {
      const input = mutated(corpus, child(key, turn * TURN + i))
      // Compilation at first use does not count toward the first input.
      if (count.inputs++ === 0) await read.read(name, corpus[0]!)
      const { ms, problem } = await read.read(name, input)
      count.slowest = Math.max(count.slowest, ms)
      const told = problem ?? (ms > STALL_MS ? `it took ${Math.round(ms)} ms` : null)
      if (told === null) continue
      count.failures++
      const file = join(corpusFolder(name), `found-${createHash('sha256').update(input).digest('hex').slice(0, 12)}`)
      writeFileSync(file, input)
      console.error(`${name}: ${told}\n  kept as ${file}`)
    }
  }
  read.close()
  console.log(`seed ${values.seed}`)
  for (const [name, { inputs, failures, slowest }] of counts)
    console.log(`${name}: ${inputs} inputs, ${failures} failures, slowest ${Math.round(slowest)} ms`)
  process.exitCode = [...counts.values()].some(({ failures }) => failures > 0) ? 1 : 0
}

if (process.argv.includes('--reader')) serveInputs()
else await fuzz()
