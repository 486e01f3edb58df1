/** Runs of `LLMCollector` with a scripted policy that takes no time or some, and what they take. */

import { setTimeout } from 'node:timers/promises'
import { median } from '../../src/bench/statistics.js'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { orThrow } from '../../src/core/failure.js'
import { keyFromSeed } from '../../src/core/key.js'
import type { Policy, TokenAction, TokenPrompt } from '../../src/data/policy.js'
import { liveTensors } from '../../src/engine/scope.js'
import { ScriptedEnv } from '../../src/testing/scriptedEnv.js'
import { ScriptedPolicy } from '../../src/testing/scriptedPolicy.js'

/** A policy that remembers nothing, and answers after some time. */
const answerAfter = (ms: number): Policy<TokenPrompt, TokenAction> => ({
  name: 'answers after a time',
  act: (state, key) => async () => {
    if (ms > 0) await setTimeout(ms)
    return ScriptedPolicy({ answers: () => [5, 6, 7, 8] }).act(state, key)()
  },
})

/** What is played: conversations of one turn, each a group of its own. */
export interface Played {
  readonly rollouts: number
  readonly inFlight: number
  readonly latencyMs: number
}

/** Conversations of a batch. */
const BATCH = 64

const megabytes = (bytes: number): number => Math.round(bytes / 2 ** 20)

/** Plays, and calls `onBatch` with the rollouts so far. Seconds of the clock and of the processor. */
const play = async ({ rollouts, inFlight, latencyMs }: Played, onBatch: (done: number) => void) => {
  const run = LLMCollector({
    env: () => ScriptedEnv([{ rewards: [1] }]),
    policy: answerAfter(latencyMs),
    key: keyFromSeed(1),
    batches: { dialogTurnsPerBatch: Math.min(BATCH, rollouts) },
    concurrent: { tasks: rollouts, maxInFlight: inFlight },
  }).begin()
  const [started, before] = [performance.now(), process.cpuUsage()]
  let done = 0
  for (let taken = orThrow(await run.next()); taken._tag === 'Batch'; taken = orThrow(await run.next())) {
    done += taken.tasks.length
    onBatch(done)
    taken.batch.release()
  }
  const { user, system } = process.cpuUsage(before)
  return { seconds: (performance.now() - started) / 1000, cpuSeconds: (user + system) / 1e6 }
}

export interface Figures extends Played {
  readonly rolloutsPerSecond: number
  /** What is left of the time when the policy's own is taken away. */
  readonly overheadMs: number
  readonly cpuMs: number
  readonly spreadSeconds: readonly [least: number, most: number]
  readonly rssMegabytes: number
  readonly tensorsLeft: number
}

const rounded = (value: number): number => Number(value.toFixed(3))

/** The median of some runs; an overhead and a time of the processor are those of one rollout. */
export const measure = async (played: Played, runs: number): Promise<Figures> => {
  const { rollouts, inFlight, latencyMs } = played
  await play({ ...played, rollouts: Math.min(rollouts, 500), latencyMs: 0 }, () => {}) // compiled code
  let rssBytes = 0
  const timed: Awaited<ReturnType<typeof play>>[] = []
  for (let i = 0; i < runs; i++) {
    const onBatch = (): void => {
      rssBytes = Math.max(rssBytes, process.memoryUsage.rss())
    }
    timed.push(await play(played, onBatch))
  }
  const seconds = timed.map((each) => each.seconds)
  const waves = Math.ceil(rollouts / inFlight) * (latencyMs / 1000)
  return {
    ...played,
    rolloutsPerSecond: Math.round(rollouts / median(seconds)),
    overheadMs: rounded((1000 * (median(seconds) - waves)) / rollouts),
    cpuMs: rounded((1000 * median(timed.map((each) => each.cpuSeconds))) / rollouts),
    spreadSeconds: [rounded(Math.min(...seconds)), rounded(Math.max(...seconds))],
    rssMegabytes: megabytes(rssBytes),
    tensorsLeft: liveTensors().count,
  }
}

/** Memory after so many rollouts of a long run. */
export interface MemoryReading {
  readonly rollouts: number
  /** What is alive, after a collection of garbage. */
  readonly heapMegabytes: number
  readonly rssMegabytes: number
  readonly tensors: number
}

/** Readings of memory at equal distances of a run, while all places are taken: not when it begins, and not when it ends. */
export const memoryOf = async (played: Played, readings: number): Promise<readonly MemoryReading[]> => {
  const taken: MemoryReading[] = []
  let next = Math.min(played.inFlight, played.rollouts)
  const last = Math.max(next, played.rollouts - played.inFlight)
  const step = (last - next) / Math.max(1, readings - 1)
  await play(played, (done) => {
    if (done < next || next > last) return
    globalThis.gc?.()
    const { heapUsed, rss } = process.memoryUsage()
    taken.push({
      rollouts: done,
      heapMegabytes: megabytes(heapUsed),
      rssMegabytes: megabytes(rss),
      tensors: liveTensors().count,
    })
    next += step
  })
  return taken
}
