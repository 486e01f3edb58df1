/**
 * Times choosing one token of a row, in nanoseconds of processor time, by size of the vocabulary
 * and kind of choice.
 *
 *     npm run bench -- sampling [--peer]
 *
 * Prints one JSON line for each. With the peer, Transformers' logits processors, softmax and
 * multinomial in torch (one row, one thread, in turns with ours), and the ratio of the times:
 * above 1, we are faster. Ours is given what the model's graph computes beside the logits (the
 * most probable token, the sums of blocks of 256); the peer is given logits.
 */
import { execFileSync } from 'node:child_process'
import { keyFromSeed, median, normals } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import type { SamplingParams } from '@tandem-rl/text'
import { Command } from 'commander'
import type { NextToken } from '../src/modules/generation/runner/modelRunner.js'
import { countTokens } from '../src/modules/generation/sampling/counts.js'
import { DEFAULT_SAMPLING } from '../src/modules/generation/sampling/params.js'
import { sampleToken } from '../src/modules/generation/sampling/sampleToken.js'
import { ownPeer, peerPython } from './shared/peers.js'

const command = new Command()
  .description('Times the choice of one token.')
  .option('--runs <n>', 'timed runs of each', Number, 7)
  .option('--millis <n>', 'length of a run', Number, 60)
  .option('--peer', 'also run Transformers, and print the ratios of the times')
command.parse()
const settings = command.opts<{ readonly runs: number; readonly millis: number; readonly peer?: boolean }>()

const VOCABULARIES = [256, 32_000, 152_000]
const BLOCK = 256
const ROUNDS = 3

const CASES: Readonly<Record<string, Partial<SamplingParams>>> = {
  greedy: { temperature: 0 },
  temperature: { temperature: 0.8 },
  'top-k 50': { topK: 50 },
  'top-p 0.95': { topP: 0.95 },
  'top-k 50, top-p 0.95': { topK: 50, topP: 0.95 },
  'min-p 0.05': { minP: 0.05 },
  'repetition penalty': { repetitionPenalty: 1.1 },
  'five log-probs': { topLogProbs: 5 },
}

/** Logits with a standard deviation of 3 nats, and their results in a runner. */
const rowOf = (vocabulary: number, inverse: number): NextToken => {
  const logits = normals(keyFromSeed(vocabulary), vocabulary).map((x) => 3 * x)
  const argMax = logits.reduce((best, logit, id) => (logit > logits[best]! ? id : best), 0)
  const max = logits[argMax]!
  const massOf = (row: Float32Array, scale: number): number =>
    row.reduce((sum, logit) => sum + Math.exp((logit - max) * scale), 0)
  return {
    logits,
    argMax,
    logNormalizer: max + Math.log(massOf(logits, 1)),
    temperedLogNormalizer: max * inverse + Math.log(massOf(logits, inverse)),
    blockMasses: Float32Array.from({ length: Math.ceil(vocabulary / BLOCK) }, (_, block) =>
      massOf(logits.subarray(block * BLOCK, (block + 1) * BLOCK), inverse),
    ),
    blockSize: BLOCK,
  }
}

/** 512 tokens that a prompt may have. */
const seenOf = (vocabulary: number): readonly number[] => Array.from({ length: 512 }, (_, i) => (i * 97) % vocabulary)

const processorNanos = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) * 1000
}

/** The median of runs, in nanoseconds for one call. */
const nanosOf = (f: (call: number) => void): number => {
  let [calls, start] = [0, processorNanos()]
  while (processorNanos() - start < settings.millis * 1e6) f(calls++)
  return median(
    Array.from({ length: settings.runs }, () => {
      start = processorNanos()
      for (let call = 0; call < calls; call++) f(call)
      return (processorNanos() - start) / calls
    }),
  )
}

type Nanos = Readonly<Record<string, Readonly<Record<string, number>>>>

const ours = (): Nanos =>
  Object.fromEntries(
    VOCABULARIES.map((vocabulary) => {
      const promptCounts = countTokens(seenOf(vocabulary))
      const base = { promptCounts, outputCounts: countTokens([]), banned: [], key: keyFromSeed(0) }
      const times = Object.entries(CASES).map(([name, some]) => {
        const params: SamplingParams = { ...DEFAULT_SAMPLING, ...some }
        const next = rowOf(vocabulary, params.temperature === 0 ? 1 : 1 / params.temperature)
        return [name, nanosOf((step) => void sampleToken(next, params, { ...base, step }))] as const
      })
      return [String(vocabulary), Object.fromEntries(times)]
    }),
  )

const theirs = (): { readonly peer: string; readonly nanos: Nanos } => {
  const rows = VOCABULARIES.map((vocabulary) => ({
    name: String(vocabulary),
    logits: Array.from(rowOf(vocabulary, 1).logits),
    seen: seenOf(vocabulary),
  }))
  const program = ownPeer('sampling.py')
  const options = ['--runs', String(settings.runs), '--millis', String(settings.millis)]
  const input = JSON.stringify({ rows, cases: CASES })
  return JSON.parse(execFileSync(peerPython(), [program, ...options], { encoding: 'utf8', input }))
}

const rounds = Array.from({ length: settings.peer ? ROUNDS : 1 }, () => ({
  tandem: ours(),
  other: settings.peer ? theirs() : undefined,
}))

for (const vocabulary of VOCABULARIES.map(String)) {
  for (const name of Object.keys(CASES)) {
    const nanos = median(rounds.map(({ tandem }) => tandem[vocabulary]![name]!))
    const line = { vocabulary: Number(vocabulary), choice: name, nanos: Math.round(nanos) }
    const peers = rounds.flatMap(({ other }) => (other === undefined ? [] : [other.nanos[vocabulary]![name]!]))
    const compared =
      peers.length === 0
        ? {}
        : { peer: rounds[0]!.other!.peer, peerNanos: Math.round(median(peers)), ratio: median(peers) / nanos }
    console.log(JSON.stringify({ ...line, ...compared, ...host() }))
  }
}
