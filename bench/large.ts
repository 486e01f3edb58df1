/**
 * Measures a decoder of half a billion parameters, shaped like Qwen2.5 0.5B, BF16 on disk: time
 * and memory of loading it, of scoring 64 tokens and of sampling at batch 1 and 16, and of one
 * LoRA step of GRPO. Each phase runs in a process of its own, so that its peak of resident memory
 * is its own.
 */
import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { keyFromSeed, normals, orThrow } from '@tandem-rl/base'
import { host, liveClock } from '@tandem-rl/base/host'
import { activeRecordingBackend, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { Command, Option } from 'commander'
import { safetensorsParts } from '../src/data/codecs/safetensors.js'
import { localLearner } from '../src/learners/localLearner.js'
import { completionKeys, makeGenerator } from '../src/modules/generation/generator.js'
import { loadWeights, type Pretrained } from '../src/modules/pretrained/pretrained.js'
import { sharedParams } from '../src/modules/pretrained/sharedParams.js'
import { type DecoderConfig, parseConfig } from '../src/modules/transformer/config.js'
import { type Params, parameterCount, parameterShapes } from '../src/modules/transformer/params.js'
import { makeScorer } from '../src/modules/transformer/scorer.js'
import { GRPOLoss } from '../src/objectives/grpoLoss.js'
import { adamW } from '../src/objectives/updates/adamW.js'
import { ratedBatch, textOfNoModel } from './shared/batch.js'
import { randomIds } from './shared/settings.js'

const PHASES = ['load', 'params', 'score', 'generate', 'generate16', 'lora'] as const

type Phase = (typeof PHASES)[number]

/** A checkpoint without a text side. */
type Weights = Omit<Pretrained, 'text'>

interface LargeOptions {
  readonly layers: number
  readonly vocab: number
  readonly threads: number
  /** Of a child process. */
  readonly phase?: Phase
  readonly folder?: string
}

const options = new Command()
  .description('Loads, scores with and samples from a random checkpoint of half a billion parameters.')
  .option('--layers <n>', 'layers of the model', Number, 24)
  .option('--vocab <n>', 'size of its vocabulary', Number, 151_936)
  .option('--threads <n>', 'threads inside one operation', Number, 2)
  .option('--folder <path>', 'use this checkpoint and keep it')
  .addOption(new Option('--phase <name>', 'run one phase in this process').choices(PHASES))
  .parse()
  .opts<LargeOptions>()

/** Sizes and settings of Qwen2.5-0.5B. */
const CONFIG = {
  model_type: 'qwen2',
  vocab_size: options.vocab,
  hidden_size: 896,
  intermediate_size: 4864,
  num_hidden_layers: options.layers,
  num_attention_heads: 14,
  num_key_value_heads: 2,
  max_position_embeddings: 32_768,
  rope_theta: 1e6,
  rms_norm_eps: 1e-6,
  tie_word_embeddings: true,
  eos_token_id: options.vocab - 2,
}

/** Random numbers that are repeated until the largest tensor is full. */
const BLOCK = 2 ** 20

/** Writes the checkpoint. All tensors are parts of one array as large as the largest, so that making them takes the memory of that one. */
const writeCheckpoint = (folder: string): void => {
  const sizes = [...parameterShapes(orThrow(parseConfig(CONFIG)))].map(
    ([name, shape]) => [name, shape, shape.reduce((n, m) => n * m, 1)] as const,
  )
  const numbers = new Float32Array(Math.max(...sizes.map(([, , size]) => size)))
  const block = normals(keyFromSeed(0), Math.min(BLOCK, numbers.length)).map((x) => x * 0.02)
  for (let start = 0; start < numbers.length; start += block.length) {
    numbers.set(block.subarray(0, numbers.length - start), start)
  }
  const arrays = new Map(
    sizes.map(([name, shape, size]) => [
      name,
      { shape, data: name.endsWith('norm.weight') ? new Float32Array(size).fill(1) : numbers.subarray(0, size) },
    ]),
  )
  const file = openSync(join(folder, 'model.safetensors'), 'w')
  for (const part of safetensorsParts(arrays, { float: 'BF16', metadata: { format: 'pt' } })) writeSync(file, part)
  closeSync(file)
  writeFileSync(join(folder, 'config.json'), JSON.stringify(CONFIG))
}

/** Largest resident memory of this process so far, in MB. */
const peakMegabytes = (): number => {
  const line = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))
  return Math.round(Number(line?.[1]) / 1000)
}

/** Of the wall and of all cores: on a busy machine only the second is worth a comparison. */
interface Seconds {
  readonly seconds: number
  readonly cpuSeconds: number
}

const timed = async <T>(run: () => T | Promise<T>): Promise<readonly [T, Seconds]> => {
  const [started, cpu] = [performance.now(), process.cpuUsage()]
  const result = await run()
  const { user, system } = process.cpuUsage(cpu)
  return [result, { seconds: (performance.now() - started) / 1000, cpuSeconds: (user + system) / 1e6 }]
}

/** The backend's time during `run`, in seconds; `other` is JavaScript and copies. */
const breakdown = async (run: () => unknown): Promise<Seconds & Readonly<Record<string, number>>> => {
  const before = activeRecordingBackend()!.stats() // the backend of this bench
  const [, time] = await timed(run)
  const after = activeRecordingBackend()!.stats()
  const [compile, native] = [(after.compileMs - before.compileMs) / 1000, (after.runMs - before.runMs) / 1000]
  const other = time.seconds - compile - native
  return { ...time, compile, run: native, other, runs: after.runs - before.runs, peakMegabytes: peakMegabytes() }
}

const scoring = async (config: DecoderConfig, params: Params): Promise<object> => {
  const scorer = makeScorer(config)
  const ids = randomIds(1, 64, config.vocabularySize)
  const score = () =>
    scorer.score(params, {
      prompts: [ids.subarray(0, 32)],
      completions: [ids.subarray(32)],
      temperature: 1,
    })
  return { first: await breakdown(score), second: await breakdown(score) }
}

/** Tokens that are sampled for each row. */
const NEW_TOKENS = 32

const sampling = async (config: DecoderConfig, params: Params, rows: number): Promise<object> => {
  const generator = makeGenerator(config)
  const sample = () =>
    generator.generate(
      params,
      {
        prompts: Array.from({ length: rows }, (_, i) => randomIds(2 + i, 16, config.vocabularySize)),
        group: 1,
        keys: completionKeys(keyFromSeed(0), rows, 1),
        options: { temperature: 1, maxNewTokens: NEW_TOKENS, minNewTokens: NEW_TOKENS, stopTokens: config.endTokens },
      },
      liveClock.breathe,
    )
  const [first, second] = [await breakdown(sample), await breakdown(sample)]
  return { rows, newTokens: NEW_TOKENS, tokensPerSecond: (rows * NEW_TOKENS) / second.seconds, first, second }
}

/** One update of an adapter on 4 rows of 32 prompt and 32 completion tokens, the layers computed again on the way back. */
const learning = async ({ config, arrays }: Weights): Promise<object> => {
  const learner = localLearner({
    model: { config, arrays, text: await textOfNoModel() },
    lora: { rank: 8, alpha: 16 },
    loss: GRPOLoss(),
    optimizer: adamW({ learningRate: 1e-4 }),
    key: keyFromSeed(1),
    compute: { recompute: 'layers' },
  })
  const ids = randomIds(1, 64, config.vocabularySize)
  const each = <T>(f: (i: number) => T): readonly T[] => [0, 1, 2, 3].map(f)
  using batch = own(
    scope(() =>
      ratedBatch({
        prompts: each(() => ids.subarray(0, 32)),
        completions: each((i) => ids.slice(32).map((id) => id + i)),
        logProbs: each(() => new Float32Array(32).fill(-Math.log(config.vocabularySize))),
        rewards: [1, 0, 1, 0],
        group: 4,
      }),
    ),
  )
  const update = async (): Promise<unknown> => orThrow(await learner.update(batch.value)())
  const measured = { first: await breakdown(update), second: await breakdown(update) }
  const adapter = Object.entries(learner.weights()).filter(
    ([name]) => name.includes('lora_') && name.endsWith('.weight'),
  )
  const adapterParameters = adapter.reduce((n, [, { size }]) => n + size, 0)
  await learner.close()
  return { adapterParameters, ...measured }
}

const measure = (phase: Phase, weights: Weights, params: Params): Promise<object> => {
  const { config } = weights
  switch (phase) {
    case 'score':
      return scoring(config, params)
    case 'lora':
      return learning(weights)
    default:
      return sampling(config, params, phase === 'generate' ? 1 : 16)
  }
}

const runPhase = async (phase: Phase, folder: string): Promise<object> => {
  const [weights, load] = await timed(async () => orThrow(await loadWeights(folder)()))
  const { config } = weights
  const parameters = parameterCount(config)
  const model = { parameters, float32Megabytes: Math.round((parameters * 4) / 1e6) }
  if (phase === 'load') return { ...model, load, peakMegabytes: peakMegabytes() }
  await selectBackend({ backend: 'onnxruntime', threads: options.threads })
  const [params, make] = await timed(() => sharedParams(weights))
  if (phase === 'params') return { ...model, load, make, peakMegabytes: peakMegabytes() }
  const measured = await measure(phase, weights, params.value)
  return { ...model, load, make, ...measured, peakMegabytes: peakMegabytes() }
}

const main = async (): Promise<void> => {
  if (options.phase !== undefined) {
    console.log(JSON.stringify(await runPhase(options.phase, options.folder!))) // the parent gives both
    return
  }
  const folder = options.folder ?? mkdtempSync(join(process.env.BENCH_TMPDIR ?? tmpdir(), 'tandem-large-'))
  try {
    if (options.folder === undefined) writeCheckpoint(folder)
    for (const phase of PHASES) {
      const output = execFileSync(
        process.execPath,
        [...process.execArgv, fileURLToPath(import.meta.url), '--folder', folder, '--phase', phase],
        { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
      )
      const measured: unknown = JSON.parse(output)
      console.log(JSON.stringify({ phase, ...Object(measured), ...host() }))
    }
  } finally {
    if (options.folder === undefined) rmSync(folder, { recursive: true, force: true })
  }
}

await main()
