/**
 * Measures the cost of a server for a training step: the same updates by a local learner, and by a
 * learner of our own Tinker server in another process. Both have the same model, batches and loss,
 * and all weights are trained. Prints milliseconds and bytes of a step.
 */
import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { keyFromSeed, median, orThrow } from '@tandem-rl/base'
import { liveHttpServer } from '@tandem-rl/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { tinkerClient } from '@tandem-rl/tinker'
import { tinkerLearner } from '@tandem-rl/tinker/learner'
import { tinkerApp } from '@tandem-rl/tinker/server'
import { localLearner } from '../src/learners/localLearner.js'
import { newModel } from '../src/modules/pretrained/newModel.js'
import { hostArrays, type Pretrained } from '../src/modules/pretrained/pretrained.js'
import { initialParams } from '../src/modules/transformer/params.js'
import { policyLoss } from '../src/objectives/policyLoss.js'
import { adamW } from '../src/objectives/updates/adamW.js'
import { randomBatch } from '../test/kit/learners.js'

const STEPS = 8
const WARMUP = 2
const GROUPS = [8, 8]

const model = (): Pretrained => {
  const key = keyFromSeed(0)
  const { config, text } = orThrow(
    newModel({
      ...{ family: 'qwen3', key },
      sizes: { hiddenSize: 128, layers: 4, heads: 4, keyValueHeads: 2, maxPositions: 256 },
      tokenizer: { texts: ['user\nassistant\n'], vocabularySize: 270 },
    }),
  )
  return { config, text, arrays: scope(() => hostArrays(initialParams(config, key, 0.02))) }
}

const serve = async (): Promise<void> => {
  await selectBackend()
  const checkpoints = mkdtempSync(join(tmpdir(), 'tinker-'))
  const app = tinkerApp({ models: { bench: model() }, checkpoints, key: keyFromSeed(1) })
  const server = orThrow(await liveHttpServer(app.fetch, { port: 0, refusal: (_, reason) => reason })())
  process.once('disconnect', () => {
    rmSync(checkpoints, { recursive: true, force: true })
    process.exit(0)
  })
  process.send?.(server.url)
}

type Update = (step: number) => Promise<unknown>

/** Milliseconds of each update after the warm-up. */
const timed = async (update: Update): Promise<readonly number[]> => {
  const times: number[] = []
  for (let step = 0; step < WARMUP + STEPS; step++) {
    const start = performance.now()
    await update(step)
    times.push(performance.now() - start)
  }
  return times.slice(WARMUP)
}

const main = async (): Promise<void> => {
  await selectBackend()
  const base = model()
  const batches = Array.from({ length: WARMUP + STEPS }, (_, step) => randomBatch(base.config, GROUPS, step))
  const parts = { loss: policyLoss(), optimizer: adamW({ learningRate: 1e-4 }), key: keyFromSeed(4) }
  const local = localLearner({ model: base, ...parts })
  const here = await timed(async (step) => orThrow(await local.update(batches[step]!)()))
  await local.close()
  const child = fork(fileURLToPath(import.meta.url), ['serve'])
  const url = await new Promise<string>((resolve) => child.once('message', (said) => resolve(String(said))))
  const rows: Record<string, Record<string, number>> = {
    local: { ms: median(here), sentBytes: 0, receivedBytes: 0, requests: 0 },
  }
  for (const wire of ['json', 'protobuf'] as const)
    for (const route of ['exact', 'builtIn'] as const) {
      const client = tinkerClient({ url, wire })
      const session = orThrow(await client.session()())
      const trainer = orThrow(await session.trainer({ baseModel: 'bench', lora: null })())
      const learner = tinkerLearner({ trainer, baseModel: 'bench', route, ...parts })
      const before = client.counts()
      const times = await timed(async (step) => orThrow(await learner.update(batches[step]!)()))
      const after = client.counts()
      const each = (name: 'sentBytes' | 'receivedBytes' | 'requests'): number =>
        Math.round((after[name] - before[name]) / (WARMUP + STEPS))
      rows[`${route}, ${wire}`] = {
        ...{ ms: median(times), sentBytes: each('sentBytes'), receivedBytes: each('receivedBytes') },
        requests: each('requests'),
      }
      await learner.close()
      await session.close()
      await client.close()
    }
  child.disconnect()
  console.table(rows)
}

await (process.argv[2] === 'serve' ? serve() : main())
