/** Rollouts per second of `AsyncLLMCollector`, and what one costs, with a scripted policy that takes no time or some. */
import { setTimeout } from 'node:timers/promises'
import { Command } from 'commander'
import { isLeft } from 'fp-ts/lib/Either.js'
import { AsyncLLMCollector } from '../src/collectors/rollouts/asyncLLMCollector.js'
import { describe } from '../src/core/failure.js'
import { keyFromSeed } from '../src/core/key.js'
import type { Policy, TokenAction, TokenPrompt } from '../src/data/policy.js'
import { liveTensors } from '../src/engine/scope.js'
import { selectBackend } from '../src/engine/select.js'
import { ScriptedEnv } from '../src/testing/scriptedEnv.js'
import { ScriptedPolicy } from '../src/testing/scriptedPolicy.js'
import { host, median } from './settings.js'

const numbers = (text: string): readonly number[] => text.split(',').map(Number)

const options = new Command()
  .description('Plays conversations of one turn against a scripted policy.')
  .option('--latency <ms>', 'what the policy takes for a turn', numbers, [0, 50])
  .option('--in-flight <n>', 'conversations at a time', numbers, [1, 10, 100, 1000, 10_000])
  .option('--runs <n>', 'runs of which the median is told', Number, 3)
  .option('--most <n>', 'conversations of a run at most', Number, 20_000)
  .parse()
  .opts<{
    readonly latency: readonly number[]
    readonly inFlight: readonly number[]
    readonly runs: number
    readonly most: number
  }>()

/** A policy that remembers nothing, and answers after some time. */
const answerAfter = (ms: number): Policy<TokenPrompt, TokenAction> => ({
  name: 'answers after a time',
  act: (state, key) => async () => {
    if (ms > 0) await setTimeout(ms)
    return ScriptedPolicy({ answers: () => [5, 6, 7, 8] }).act(state, key)()
  },
})

/** Seconds for some rollouts, and the most memory meanwhile. */
const play = async (tasks: number, maxInFlight: number, latencyMs: number) => {
  const collector = AsyncLLMCollector({
    env: () => ScriptedEnv([{ rewards: [1] }]),
    policy: answerAfter(latencyMs),
    key: keyFromSeed(1),
    tasks,
    maxInFlight,
    dialogTurnsPerBatch: Math.min(64, tasks),
  })
  const run = collector.start()
  const started = performance.now()
  let rssBytes = 0
  let rollouts = 0
  for (let taken = await run.next(); ; taken = await run.next()) {
    if (isLeft(taken)) throw new Error(describe(taken.left))
    if (taken.right._tag === 'End') return { seconds: (performance.now() - started) / 1000, rssBytes, rollouts }
    rollouts += taken.right.tasks.length
    rssBytes = Math.max(rssBytes, process.memoryUsage().rss)
    taken.right.batch.release()
  }
}

await selectBackend()
console.log(JSON.stringify(host()))
for (const latencyMs of options.latency) {
  for (const inFlight of options.inFlight) {
    // One after the other with a wait each, a few are enough; many at a time are played twice over.
    const tasks = Math.min(options.most, Math.max(2 * inFlight, latencyMs > 0 ? 20 : 500))
    await play(Math.min(tasks, 200), inFlight, 0) // compiled code
    const runs: Awaited<ReturnType<typeof play>>[] = []
    for (let i = 0; i < options.runs; i++) runs.push(await play(tasks, inFlight, latencyMs))
    const seconds = runs.map((each) => each.seconds)
    const waves = Math.ceil(tasks / inFlight) * (latencyMs / 1000)
    console.log(
      JSON.stringify({
        latencyMs,
        inFlight,
        rollouts: tasks,
        rolloutsPerSecond: Math.round(tasks / median(seconds)),
        // What is left when the policy's own time is taken away.
        overheadMsPerRollout: Number(((1000 * (median(seconds) - waves)) / tasks).toFixed(3)),
        spreadSeconds: [Math.min(...seconds), Math.max(...seconds)].map((each) => Number(each.toFixed(3))),
        rssMegabytes: Math.round(Math.max(...runs.map((each) => each.rssBytes)) / 2 ** 20),
        tensorsLeft: liveTensors().count,
      }),
    )
  }
}
