/**
 * Scores, samples and trains a small model on a device, and prints the numbers and where each
 * operation ran. A program, because a process has one device: `tsx deviceRun.ts webgpu`.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed } from '@tandem-rl/base'
import { BACKEND_NAME } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { loadOnnxRuntime } from '../../packages/tfjs-onnxruntime/src/onnxruntime/binding.js'
import { cpuBackend } from '../../packages/tfjs-onnxruntime/src/onnxruntime/fallback.js'
import type { OnnxRuntime, OnnxSession } from '../../packages/tfjs-onnxruntime/src/onnxruntime/library.js'
import { DEVICES } from '../../packages/tfjs-onnxruntime/src/onnxruntime/library.js'
import { connectOnnxRuntime } from '../../packages/tfjs-onnxruntime/src/register.js'
import { lossStep } from '../../src/learners/steps/lossStep.js'
import { completionKeys, makeGenerator } from '../../src/modules/generation/generator.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import { makeScorer } from '../../src/modules/transformer/scorer.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import { adamW } from '../../src/objectives/updates/adamW.js'
import { tinyConfig } from './models.js'

/** The numbers of a run. */
export interface DeviceRun {
  readonly scores: readonly (readonly number[])[]
  readonly samples: readonly (readonly number[])[]
  readonly steps: readonly { readonly loss: number; readonly gradNorm: number }[]
  /** The number of calls of each operator, by execution provider. */
  readonly operators: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** Bytes of feeds of the last training step, without tensors that stayed on the device. */
  readonly bytesIn: number
  readonly parameterBytes: number
}

const device = DEVICES.find((name) => name === process.argv[2])
if (device === undefined) throw new Error(`name a device: ${DEVICES.join(' or ')}`)

const library = loadOnnxRuntime()
const folder = mkdtempSync(join(tmpdir(), 'device-run-'))
const sessions = new Set<OnnxSession>()
const profiled: OnnxRuntime = {
  ...library,
  createSession: (model, options) => {
    const profileFilePrefix = join(folder, `${sessions.size}`)
    const session = library.createSession(model, { ...options, enableProfiling: true, profileFilePrefix })
    sessions.add(session)
    return { run: (...given) => session.run(...given), endProfiling: () => {}, dispose: () => {} }
  },
}
const backend = connectOnnxRuntime({ device }, profiled)
tf.removeBackend(BACKEND_NAME) // importing the package has registered the default one
tf.registerBackend(BACKEND_NAME, () => backend.kernelBackend)
tf.setBackend(BACKEND_NAME)
cpuBackend()

const config = tinyConfig({
  vocabularySize: 64,
  hiddenSize: 32,
  intermediateSize: 64,
  heads: 4,
  keyValueHeads: 2,
  layers: 2,
})
const params = own(scope(() => initialParams(config, keyFromSeed(0), 0.3)))
const prompts = [
  [1, 2, 3],
  [1, 2, 3],
  [4, 5],
  [4, 5],
]
const scorer = makeScorer(config)
const scores = scorer.score(params.value, {
  prompts: [prompts[0]!, prompts[0]!, prompts[2]!, prompts[2]!],
  completions: [[1, 2, 3], [4, 5, 6], [7, 8, 9, 10], [1]],
  temperature: 1,
})
const sampled = await makeGenerator(config).generate(
  params.value,
  {
    prompts: [prompts[0]!, prompts[2]!],
    group: 2,
    keys: completionKeys(keyFromSeed(1), 2, 2),
    options: { temperature: 1, maxNewTokens: 6, stopTokens: [] },
  },
  async () => {},
)
const step = lossStep(GRPOLoss(), { config, optimizer: adamW() })
let state = own(step.init(params.value))
const steps: { loss: number; gradNorm: number }[] = []
let bytesIn = 0
for (let i = 0; i < 3; i++) {
  const before = backend.stats().bytesIn
  const rows = {
    prompts,
    completions: sampled.map(({ ids }) => ids),
    lists: { oldLogProbs: sampled.map(({ logProbs }) => logProbs), advantages: [1, -1, 0.5, -0.5] },
    temperature: 1,
  }
  const next = step.update(state.value, rows, 1e-3)
  bytesIn = backend.stats().bytesIn - before
  steps.push({ loss: next.metrics.loss, gradNorm: next.metrics.gradNorm })
  state.release()
  state = next.state
}
for (const session of sessions) session.endProfiling()

interface Event {
  readonly cat: string
  readonly name: string
  readonly args?: { readonly provider?: string; readonly op_name?: string }
}

const operators: Record<string, Record<string, number>> = {}
for (const file of readdirSync(folder)) {
  // As onnxruntime writes it.
  const events = JSON.parse(readFileSync(join(folder, file), 'utf8')) as readonly Event[]
  for (const { cat, name, args } of events) {
    if (cat !== 'Node' || !name.endsWith('_kernel_time')) continue
    const { provider = '', op_name: operator = '' } = args ?? {}
    const known = operators[provider] ?? {}
    operators[provider] = { ...known, [operator]: (known[operator] ?? 0) + 1 }
  }
}
rmSync(folder, { recursive: true })
const result: DeviceRun = {
  scores: scores.map((row) => [...row]),
  samples: sampled.map(({ ids }) => [...ids]),
  steps,
  operators,
  bytesIn,
  parameterBytes: Object.values(params.value).reduce((sum, { size }) => sum + 4 * size, 0),
}
console.log(JSON.stringify(result))
process.exit(0) // sessions that were not disposed would end their profiles again
