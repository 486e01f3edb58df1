/**
 * Profiles a step of training, sampling, GRPO or serving: `npm run bench -- profile
 * train|generate|grpo|serve`. It prints a table and writes a picture. With more than one thread,
 * operators use all of them; everything else runs in this one.
 */
import { writeFileSync } from 'node:fs'
import { median } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { GROUPINGS, type Grouping, profileBackend } from '@tandem-rl/tfjs-onnxruntime/profile'
import { Argument, Option } from 'commander'
import { parameterCount } from '../src/modules/transformer/params.js'
import { type BenchSettings, benchCommand, benchConfig, type TimedRun } from './shared/settings.js'
import { generateWork } from './work/generate.js'
import { grpoWork } from './work/grpo.js'
import { serveWork } from './work/serve.js'
import { trainWork } from './work/train.js'

const WORK = ['train', 'generate', 'grpo', 'serve'] as const
type WorkName = (typeof WORK)[number]

const SIZES = { batch: 16, length: 128, prompts: 16, group: 8, prompt: 32, newTokens: 64, atATime: 16 }
type Settings = BenchSettings & typeof SIZES

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
  await selectBackend({ backend: 'onnxruntime', threads: settings.threads })
  const run = await start(name, settings)
  await runs(run, settings.warmup)
  return 1000 * median(await runs(run, settings.runs))
}

const { command, settingsOf } = benchCommand('Shows where the time of a step goes.', SIZES)
command.addArgument(new Argument('<work>', 'what to profile').choices(WORK))
command.addOption(new Option('--by <key>', 'what has a row of its own').choices(GROUPINGS).default('operator'))
command.option('--picture <file>', 'where to write the picture', 'profile.svg')
command.parse()
const name = command.args[0] as WorkName // one of the choices
const settings = settingsOf()
const { by, picture } = command.opts<{ readonly by: Grouping; readonly picture: string }>()

const plainMs = await plainStep(name, settings)
const profiler = await profileBackend({ threads: settings.threads })
const run = await start(name, settings)
await runs(run, settings.warmup)
profiler.start()
await runs(run, settings.runs)
const { cpu, cores, node } = host()
const { hidden, layers, vocab, threads } = settings
const parameters = (parameterCount(benchConfig(settings)) / 1e6).toFixed(1)
const title = `${name}: hidden ${hidden}, ${layers} layers, vocabulary ${vocab} (${parameters} M parameters)`
const profile = profiler.finish(settings.runs, title, by)
profiler.close()
console.log(`${title}\n${cpu}, ${cores} cores, ${threads} of them used; Node ${node}\n`)
console.log(profile.table)
console.log(`Without the profiler a step takes ${plainMs.toFixed(1)} ms (median of ${settings.runs}).`)
writeFileSync(picture, profile.picture)
console.log(`Picture: ${picture}`)
