/** Runs of `LLMCollector` with a scripted policy that takes no time or some, and what they take. */
import { setTimeout } from 'node:timers/promises'
import { keyFromSeed, median, orThrow } from '@tandem-rl/base'
import { liveUsage } from '@tandem-rl/base/host'
import { benchmark, collectorSubject, type RoundContext } from '@tandem-rl/bench'
import { scriptedEnv, scriptedPolicy } from '@tandem-rl/testing'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import type { Policy, TokenAction, TokenPrompt } from '../../src/data/policy.js'

/** A policy that remembers nothing, and answers after some time. */
const answerAfter = (ms: number): Policy<TokenPrompt, TokenAction> => ({
  name: 'answers after a time',
  act: (state, key) => async () => {
    if (ms > 0) await setTimeout(ms)
    return scriptedPolicy({ answers: () => [5, 6, 7, 8] }).act(state, key)()
  },
})

/** The workload: conversations of one turn, each its own group. */
export interface Played {
  readonly rollouts: number
  readonly inFlight: number
  readonly latencyMs: number
}

/** Conversations of a batch. */
const BATCH = 64

const megabytes = (bytes: number): number => Math.round(bytes / 2 ** 20)

/** Makes the collector. Only its environments and its policy are the round's. */
const collectorOf = (
  { rollouts, inFlight, latencyMs }: Played,
  round: Pick<RoundContext, 'key' | 'timeEnv' | 'timePolicy'>,
) =>
  LLMCollector({
    env: () => round.timeEnv(scriptedEnv([{ rewards: [1] }])),
    policy: round.timePolicy(answerAfter(latencyMs)),
    key: round.key,
    batches: { dialogTurnsPerBatch: Math.min(BATCH, rollouts) },
    concurrent: { tasks: rollouts, maxInFlight: inFlight },
  })

export interface Figures extends Played {
  readonly rolloutsPerSecond: number
  /** The time of a rollout without the policy's latency. */
  readonly overheadMs: number
  readonly cpuMs: number
  readonly spreadSeconds: readonly [least: number, most: number]
  readonly rssMegabytes: number
  readonly tensorsLeft: number
}

const rounded = (value: number): number => Number(value.toFixed(3))

/** Measures some runs. Overhead and processor time are those of one rollout. */
export const measure = async (played: Played, runs: number): Promise<Figures> => {
  const { rollouts, inFlight, latencyMs } = played
  const subject = collectorSubject({
    name: 'LLMCollector',
    collector: (round) => collectorOf(played, round),
    rollouts,
  })
  const { rounds, cpuMs } = orThrow(await benchmark({ subject, rounds: runs, warmUp: 1, key: keyFromSeed(1) })())
  const seconds = rounds.map((round) => round.seconds)
  const waves = Math.ceil(rollouts / inFlight) * (latencyMs / 1000)
  return {
    ...played,
    rolloutsPerSecond: Math.round(rollouts / median(seconds)),
    overheadMs: rounded((1000 * (median(seconds) - waves)) / rollouts),
    cpuMs: rounded(cpuMs.median),
    spreadSeconds: [rounded(Math.min(...seconds)), rounded(Math.max(...seconds))],
    rssMegabytes: megabytes(Math.max(...rounds.map(({ residentBytes }) => residentBytes))),
    tensorsLeft: rounds.at(-1)!.tensors,
  }
}

/** Memory after so many rollouts of a long run. */
export interface MemoryReading {
  readonly rollouts: number
  /** Memory in use after a garbage collection. */
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
  const untimed = { key: keyFromSeed(1), timeEnv: <T>(env: T) => env, timePolicy: <T>(policy: T) => policy }
  let done = 0
  for await (const batch of collectorOf(played, untimed)) {
    done += batch.batchShape[0]! // one turn each
    if (done < next || next > last) continue
    const { rss } = process.memoryUsage()
    taken.push({
      rollouts: done,
      heapMegabytes: megabytes(liveUsage.heapBytes()),
      rssMegabytes: megabytes(rss),
      tensors: liveTensors().count,
    })
    next += step
  }
  return taken
}
