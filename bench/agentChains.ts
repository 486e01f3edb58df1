/**
 * Measures chains per second of an agent with one tool, against the `ToolEnv` of verifiers: a
 * scripted server, in a process of its own, asks for a call of the tool and then answers, so that
 * what is timed is everything around the model.
 *
 *     VERIFIERS_VENV=<folder> npm run bench -- agentChains
 *
 * where `pip install verifiers==0.3.1` was run in that folder's environment: 0.4.0 has no
 * `ToolEnv`. Each side is a process of its own and plays the same number of chains in turn, so
 * that load on the machine slows all of them. Both score chains, and both check that every chain
 * went as it should. verifiers plays them in two ways: its rollout loop alone, and `generate`,
 * which also keeps statistics.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { median } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { Command } from 'commander'
import { speedRatio } from '../packages/bench/src/statistics.js'
import { integerBetween, positiveInteger } from '../src/cli/options.js'

const { chains, concurrent, rounds, ms } = new Command()
  .description('Plays chains of an agent against a scripted server; with VERIFIERS_VENV, verifiers plays them as well.')
  .option('--chains <n>', 'chains of a round', positiveInteger, 500)
  .option('--concurrent <n>', 'chains at a time', positiveInteger, 32)
  .option('--rounds <n>', 'rounds of each side', integerBetween(2), 7)
  .option('--ms <n>', 'milliseconds before the server answers', Number, 0)
  .parse()
  .opts<{ readonly chains: number; readonly concurrent: number; readonly rounds: number; readonly ms: number }>()

/** The output of one side for a round. */
interface Round {
  readonly seconds: number
  readonly cpuSeconds: number
  readonly peakMiB: number
  /** Chains with the right answer, and as many messages as they should have. */
  readonly correct: number
}

interface Side {
  readonly name: string
  readonly play: (count: number) => Promise<Round>
  readonly close: () => void
}

const sideOf = (name: string, command: string, args: readonly string[]): Side => {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] })
  const lines = createInterface({ input: child.stdout })
  const ended = once(child, 'close').then(([code]) => {
    throw new Error(`${name} ended with code ${code}`)
  })
  ended.catch(() => {}) // it also ends when it is closed
  return {
    name,
    play: async (count) => {
      const line = Promise.race([once(lines, 'line'), ended])
      child.stdin.write(`${count}\n`)
      const round = JSON.parse(String((await line)[0])) as Round // printed by both programs
      if (round.correct !== count) throw new Error(`${name}: ${round.correct} of ${count} chains went as they should`)
      return round
    },
    close: () => void child.stdin.end(),
  }
}

const shown = (values: readonly number[], places: number): string => {
  const [low, high] = [Math.min(...values), Math.max(...values)]
  return `${median(values).toFixed(places)} (${low.toFixed(places)} to ${high.toFixed(places)})`
}

const server: ChildProcess = fork('bench/agents/server.ts', [String(ms)], { execArgv: ['--import', 'tsx'] })
const [port] = await once(server, 'message')
const args = [`http://127.0.0.1:${port}`, String(concurrent)]
const venv = process.env.VERIFIERS_VENV
const sides = [sideOf('tandem', process.execPath, ['--import', 'tsx', 'bench/agents/tandem.ts', ...args])]
if (venv !== undefined)
  for (const loop of ['rollouts', 'generate'])
    sides.push(sideOf(`verifiers, ${loop}`, join(venv, 'bin', 'python'), ['bench/agents/toolEnv.py', ...args, loop]))

for (const side of sides) await side.play(chains) // warm-up
const played = sides.map((): Round[] => [])
for (let round = 0; round < rounds; round++)
  for (const [i, side] of sides.entries()) played[i]!.push(await side.play(chains))

console.log(JSON.stringify({ ...host(), chains, concurrent, rounds, ms }))
const ratesOf = (side: readonly Round[]): readonly number[] => side.map(({ seconds }) => chains / seconds)
for (const [i, { name }] of sides.entries()) {
  const own = played[i]!
  const cpu = own.map(({ cpuSeconds }) => (cpuSeconds * 1000) / chains)
  const peak = Math.round(Math.max(...own.map(({ peakMiB }) => peakMiB)))
  console.log(`${name}: ${shown(ratesOf(own), 0)} chains/s, ${shown(cpu, 2)} ms of CPU each, at most ${peak} MiB`)
  if (i === 0) continue
  const { estimate, low, high } = speedRatio(ratesOf(own), ratesOf(played[0]!))
  console.log(`  tandem is ${estimate.toFixed(2)} times as fast (95 %: ${low.toFixed(2)} to ${high.toFixed(2)})`)
}
for (const side of sides) side.close()
server.kill()
