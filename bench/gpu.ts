/**
 * Times training steps, scoring and sampling on a device of onnxruntime, beside its CPU: one JSON
 * line for each row.
 *
 * A process has one device, so each row runs in a process of its own.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { keyFromSeed, median } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { Command, Option } from 'commander'
import { DEVICES, type Device } from '../packages/tfjs-onnxruntime/src/onnxruntime/library.js'
import { lossStep } from '../src/learners/steps/lossStep.js'
import type { DecoderConfig } from '../src/modules/transformer/config.js'
import { initialParams, parameterCount } from '../src/modules/transformer/params.js'
import { makeScorer } from '../src/modules/transformer/scorer.js'
import { GRPOLoss } from '../src/objectives/grpoLoss.js'
import { adamW } from '../src/objectives/updates/adamW.js'
import { benchConfig, randomIds, type TimedRun } from './shared/settings.js'
import { generateWork } from './work/generate.js'

const WORKS = ['train', 'score', 'sample'] as const

interface Sizes {
  readonly prompts: number
  readonly group: number
  readonly prompt: number
  readonly completion: number
}

const rowsOf = (config: DecoderConfig, { prompts, group, prompt, completion }: Sizes) => {
  const ids = (seed: number, length: number) => Array.from(randomIds(seed, length, config.vocabularySize))
  return {
    prompts: Array.from({ length: prompts }, (_, i) => ids(i, prompt)),
    completions: Array.from({ length: prompts * group }, (_, i) => ids(1000 + i, completion)),
  }
}

const sharedPrompts = (prompts: readonly number[][], { group }: Sizes) =>
  prompts.flatMap((prompt) => Array.from({ length: group }, () => prompt))

const trainWork = (config: DecoderConfig, sizes: Sizes): TimedRun => {
  const { prompts, completions } = rowsOf(config, sizes)
  const step = lossStep(GRPOLoss(), { config, optimizer: adamW() })
  const rows = {
    prompts: sharedPrompts(prompts, sizes),
    completions,
    lists: {
      oldLogProbs: completions.map((row) => row.map(() => -5)),
      advantages: completions.map((_, i) => (i % 2 === 0 ? 1 : -1)),
    },
    temperature: 1,
  }
  let state = own(scope(() => step.init(initialParams(config, keyFromSeed(0)))))
  return async () => {
    const started = performance.now()
    const next = step.update(state.value, rows, 1e-5)
    const seconds = (performance.now() - started) / 1000
    state.release()
    state = next.state
    return seconds
  }
}

const scoreWork = (config: DecoderConfig, sizes: Sizes): TimedRun => {
  const { prompts, completions } = rowsOf(config, sizes)
  const rows = { prompts: sharedPrompts(prompts, sizes), completions, temperature: 1 }
  const params = own(scope(() => initialParams(config, keyFromSeed(0))))
  const scorer = makeScorer(config)
  return async () => {
    const started = performance.now()
    scorer.score(params.value, rows)
    return (performance.now() - started) / 1000
  }
}

const workOf = (work: (typeof WORKS)[number], config: DecoderConfig, sizes: Sizes): TimedRun => {
  switch (work) {
    case 'train':
      return trainWork(config, sizes)
    case 'score':
      return scoreWork(config, sizes)
    case 'sample':
      return generateWork(config, {
        ...{ batch: sizes.prompts * sizes.group, prompt: sizes.prompt, newTokens: sizes.completion },
      })
  }
}

interface RowOptions {
  readonly work: (typeof WORKS)[number]
  readonly device: Device
  readonly hidden: number
  readonly layers: number
  readonly runs: number
}

/** Returns the name of an NVIDIA GPU; onnxruntime does not tell the name of its adapter. */
const gpuName = (): string | null => {
  try {
    return execFileSync('nvidia-smi', ['--query-gpu=name', '--format=csv,noheader'], { encoding: 'utf8' }).trim()
  } catch {
    return null // no NVIDIA driver
  }
}

const measure = async ({ work, device, hidden, layers, runs }: RowOptions): Promise<void> => {
  await selectBackend({ device })
  const config = benchConfig({ hidden, layers, heads: hidden / 32, kvHeads: hidden / 64, vocab: 512 })
  const sizes = { prompts: 8, group: 8, prompt: 32, completion: 64 }
  const run = workOf(work, config, sizes)
  await run()
  await run()
  const seconds: number[] = []
  for (let i = 0; i < runs; i++) seconds.push(await run())
  const tokens = sizes.prompts * sizes.group * sizes.completion
  const gpu = device === 'webgpu' ? { gpu: gpuName() } : {}
  const middle = median(seconds)
  console.log(
    JSON.stringify({
      ...{ program: 'gpu', work, device, ...gpu, parameters: parameterCount(config), hidden, layers, ...sizes },
      ...{
        seconds: middle,
        lowest: Math.min(...seconds),
        highest: Math.max(...seconds),
        tokensPerSecond: tokens / middle,
      },
      ...host(),
    }),
  )
}

const program = new Command()
  .description('Measures training steps, scoring and sampling on devices of onnxruntime.')
  .addOption(new Option('--work <name>', 'one row only').choices(WORKS))
  .addOption(new Option('--device <name>', 'one row only').choices(DEVICES))
  .option('--hidden <list>', 'hidden sizes', '128,256,512')
  .option('--layers <n>', '', Number, 8)
  .option('--runs <n>', 'measured runs of a row, after two others', Number, 5)
  .parse()
const { hidden, layers, runs, work, device } = program.opts<Omit<RowOptions, 'hidden'> & { readonly hidden: string }>()

if (work !== undefined && device !== undefined) {
  await measure({ work, device, hidden: Number(hidden), layers, runs })
  process.exit(0)
}
for (const size of hidden.split(',')) {
  for (const work of WORKS) {
    for (const device of DEVICES) {
      const own = ['--work', work, '--device', device, '--hidden', size, '--layers', `${layers}`, '--runs', `${runs}`]
      execFileSync(process.execPath, [...process.execArgv, fileURLToPath(import.meta.url), ...own], {
        stdio: ['ignore', 'inherit', 'inherit'],
      })
    }
  }
}
