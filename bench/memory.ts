/**
 * Compares the peak memory of training steps with the estimate, in a process of its own for each
 * way of training: `npm run bench -- memory`. Prints one JSON line for each, with the ratio of
 * estimate and measurement.
 */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { own, scope, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { adamW, GRPOLoss, keyFromSeed, localLearner, memoryEstimate, orThrow } from 'tandem-rl'
import { initialLora, loraConfig, type MemoryRequest, parameterCount } from 'tandem-rl/models'
import { randomModel, ratedBatch } from './shared/batch.js'
import { benchConfig, randomIds } from './shared/settings.js'

interface Case {
  readonly hidden: number
  readonly layers: number
  readonly vocab: number
  readonly prompts: number
  readonly group: number
  readonly promptLength: number
  readonly completionLength: number
  readonly train: 'all' | 'lora'
  readonly recompute: 'none' | 'layers'
}

/** All rows in one run. */
const MICRO_BATCH = 1e9

interface Measured {
  readonly peak: number
  readonly seconds: number
}

const configOfCase = ({ hidden, layers, vocab }: Case) =>
  benchConfig({ hidden, layers, vocab, heads: hidden / 64, kvHeads: hidden / 128 })

const batchOf = ({ prompts, group, promptLength, completionLength, vocab }: Case) => {
  const ids = randomIds(1, promptLength + completionLength, vocab)
  const count = prompts * group
  const each = <T>(f: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => f(i))
  return ratedBatch({
    prompts: each((i) => ids.slice(0, promptLength).map((id) => (id + Math.floor(i / group)) % (vocab - 3))),
    completions: each((i) => ids.slice(promptLength).map((id) => (id + i) % (vocab - 3))),
    logProbs: each(() => new Float32Array(completionLength).fill(-Math.log(vocab))),
    rewards: each((i) => (i % 2 === 0 ? 1 : 0)),
    group,
  })
}

const requestOf = (one: Case): MemoryRequest => {
  const config = configOfCase(one)
  const adapter = initialLora(config, loraConfig({ rank: 8 }), keyFromSeed(1))
  const sizes = [...orThrow(adapter).arrays.values()].map(({ data }) => data.length)
  return {
    config,
    trained: one.train === 'all' ? parameterCount(config) : sizes.reduce((a, b) => a + b, 0),
    stateNumbers: 2,
    batch: {
      prompts: one.prompts,
      group: one.group,
      promptTokens: one.promptLength,
      completionTokens: one.completionLength,
    },
    microBatchTokens: MICRO_BATCH,
    recompute: one.recompute,
  }
}

/** Two steps: memory of the first is not all that there is, since the optimizer's state is replaced in the second. */
const measure = async (one: Case): Promise<void> => {
  await selectBackend({ threads: 2 })
  const learner = localLearner({
    model: await randomModel(configOfCase(one)),
    ...(one.train === 'lora' && { lora: { rank: 8 } }),
    loss: GRPOLoss(),
    optimizer: adamW({ learningRate: 1e-4 }),
    key: keyFromSeed(1),
    compute: { microBatchTokens: MICRO_BATCH, recompute: one.recompute },
  })
  using batch = own(scope(() => batchOf(one)))
  const started = performance.now()
  for (let i = 0; i < 2; i++) orThrow(await learner.update(batch.value)())
  const seconds = (performance.now() - started) / 1000
  process.send?.({ peak: process.resourceUsage().maxRSS * 1024, seconds }, () => process.exit(0))
}

const CASES: readonly Omit<Case, 'train' | 'recompute'>[] = [
  { hidden: 128, layers: 4, vocab: 1024, prompts: 4, group: 8, promptLength: 64, completionLength: 64 },
  { hidden: 256, layers: 8, vocab: 4096, prompts: 4, group: 8, promptLength: 64, completionLength: 96 },
  { hidden: 512, layers: 12, vocab: 8192, prompts: 2, group: 8, promptLength: 64, completionLength: 128 },
]

const [given] = process.argv.slice(2)
if (given !== undefined)
  await measure(JSON.parse(given) as Case) // written below
else {
  for (const sizes of CASES) {
    for (const train of ['all', 'lora'] as const) {
      for (const recompute of ['none', 'layers'] as const) {
        const one: Case = { ...sizes, train, recompute }
        const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(one)])
        const result = await new Promise<Measured>(
          (resolve) => child.on('message', (message) => resolve(message as Measured)), // sent by `measure`
        )
        const mib = (bytes: number): number => Math.round(bytes / 2 ** 20)
        const { total } = memoryEstimate(requestOf(one))
        console.log(
          JSON.stringify({
            ...one,
            peakMiB: mib(result.peak),
            estimateMiB: mib(total),
            ratio: Number((total / result.peak).toFixed(2)),
            seconds: Number(result.seconds.toFixed(1)),
          }),
        )
      }
    }
  }
}
