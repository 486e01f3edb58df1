/**
 * Profiles a step of training, sampling, GRPO or serving: `npm run bench -- profile
 * train|generate|grpo|serve`. It prints a table and writes a picture. With more than one thread,
 * operators use all of them; everything else runs in this one.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { median } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { BACKEND_NAME } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { Argument, Option } from 'commander'
import { loadOnnxRuntime } from '../packages/tfjs-onnxruntime/src/onnxruntime/binding.js'
import type { OnnxRuntime } from '../packages/tfjs-onnxruntime/src/onnxruntime/library.js'
import { connectOnnxRuntime } from '../packages/tfjs-onnxruntime/src/register.js'
import { parameterCount } from '../src/modules/transformer/params.js'
import { GROUPINGS, type Grouping, type StepFigures, stepFigures } from './profile/figures.js'
import { peaksOf, runPeakWork } from './profile/peaks.js'
import { profilePicture } from './profile/picture.js'
import { recordSessions } from './profile/sessions.js'
import { profileTable } from './profile/table.js'
import { type BenchSettings, benchCommand, benchConfig, type TimedRun } from './shared/settings.js'
import { generateWork } from './work/generate.js'
import { grpoWork } from './work/grpo.js'
import { serveWork } from './work/serve.js'
import { trainWork } from './work/train.js'

const WORK = ['train', 'generate', 'grpo', 'serve'] as const
type WorkName = (typeof WORK)[number]

const SIZES = { batch: 16, length: 128, prompts: 16, group: 8, prompt: 32, newTokens: 64, atATime: 16 }
type Settings = BenchSettings & typeof SIZES

const use = async (settings: Settings, library: OnnxRuntime): Promise<void> => {
  const backend = connectOnnxRuntime({ threads: settings.threads }, library)
  if (tf.findBackendFactory(BACKEND_NAME) !== null) tf.removeBackend(BACKEND_NAME)
  tf.registerBackend(BACKEND_NAME, () => backend.kernelBackend)
  await tf.setBackend(BACKEND_NAME)
}

const start = async (name: WorkName, settings: Settings): Promise<TimedRun> => {
  const config = benchConfig(settings)
  switch (name) {
    case 'train':
      return trainWork(config, settings)
    case 'generate':
      return generateWork(config, settings)
    case 'grpo':
      return (await grpoWork(config, { ...settings, workers: 1 })).run
    case 'serve':
      return serveWork(config, settings)
  }
}

const runs = async (run: TimedRun, count: number): Promise<readonly number[]> => {
  const seconds: number[] = []
  for (let i = 0; i < count; i++) seconds.push(await run())
  return seconds
}

/** Returns milliseconds of a step without the profiler. */
const plainStep = async (name: WorkName, settings: Settings): Promise<number> => {
  await use(settings, loadOnnxRuntime())
  const run = await start(name, settings)
  await runs(run, settings.warmup)
  return 1000 * median(await runs(run, settings.runs))
}

const recorded = async (settings: Settings, folder: string) => {
  const recorder = recordSessions(loadOnnxRuntime(), folder)
  await use(settings, recorder.library)
  return recorder
}

const measurePeaks = async (settings: Settings, folder: string) => {
  const recorder = await recorded(settings, folder)
  recorder.start()
  runPeakWork()
  return peaksOf(recorder.finish())
}

const profiledSteps = async (name: WorkName, settings: Settings, folder: string) => {
  const recorder = await recorded(settings, folder)
  const run = await start(name, settings)
  await runs(run, settings.warmup)
  recorder.start()
  const [before, started] = [performance.eventLoopUtilization(), performance.now()]
  await runs(run, settings.runs)
  const { idle: idleMs } = performance.eventLoopUtilization(before)
  return { steps: settings.runs, wallMs: performance.now() - started, idleMs, calls: recorder.finish() }
}

const { command, settingsOf } = benchCommand('Shows where the time of a step goes.', SIZES)
command.addArgument(new Argument('<work>', 'what to profile').choices(WORK))
command.addOption(new Option('--by <key>', 'what has a row of its own').choices(GROUPINGS).default('operator'))
command.option('--picture <file>', 'where to write the picture', 'profile.svg')
command.parse()
const name = command.args[0] as WorkName // one of the choices
const settings = settingsOf()
const { by, picture } = command.opts<{ readonly by: Grouping; readonly picture: string }>()

const folder = mkdtempSync(join(tmpdir(), 'tandem-profile-'))
try {
  const plainMs = await plainStep(name, settings)
  const peaks = await measurePeaks(settings, folder)
  const figures: StepFigures = stepFigures(await profiledSteps(name, settings, folder), peaks, by)
  const { cpu, cores, node } = host()
  const { hidden, layers, vocab, threads } = settings
  const parameters = (parameterCount(benchConfig(settings)) / 1e6).toFixed(1)
  const title = `${name}: hidden ${hidden}, ${layers} layers, vocabulary ${vocab} (${parameters} M parameters)`
  console.log(`${title}\n${cpu}, ${cores} cores, ${threads} of them used; Node ${node}\n`)
  console.log(profileTable(figures, peaks))
  console.log(`Without the profiler a step takes ${plainMs.toFixed(1)} ms (median of ${settings.runs}).`)
  writeFileSync(picture, profilePicture(figures, title))
  console.log(`Picture: ${picture}`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
