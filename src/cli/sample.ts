/** `tandem sample`: prints completions of a question. */
import { keyFromSeed } from '@tandem-rl/base'
import { liveClock, print } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { Argument, Command, Option } from 'commander'
import { EMBEDDED_MODEL } from '../live/embeddedModel.js'
import { samplingDefaults } from '../modules/pretrained/modelConfig.js'
import { modelFolders } from '../modules/pretrained/modelFolder.js'
import { loadPretrained } from '../modules/pretrained/pretrained.js'
import { settingLeaves, withSetting } from '../run/parts/recipe.js'
import { sampleCompletions } from '../run/parts/sample.js'
import { heldOutProblems } from '../run/parts/tasks.js'
import { sampleStep } from '../run/train/step.js'
import { trajectoryRecordsOf } from '../run/train/trajectoryRecords.js'
import { asCommandError } from './expectedErrors.js'
import { CommandError, orFail } from './failure.js'
import {
  adapterOption,
  countFor,
  downloadLines,
  type EngineOptions,
  engineOptions,
  modelName,
  modelOption,
  naturalNumber,
  nonNegativeNumber,
  positiveInteger,
  share,
  startEngine,
} from './options.js'
import { build, type Settings, say } from './plan.js'
import { type LoadedRecipe, loadRecipe } from './recipeFile.js'
import { checkedSettings } from './recipeFlags.js'

interface SampleFlags extends EngineOptions {
  readonly model: string
  readonly adapter?: string
  readonly count: number
  readonly temperature?: number
  readonly topK?: number
  readonly topP?: number
  readonly maxNewTokens: number
  readonly seed: number
  readonly json?: boolean
  readonly recipe?: string
}

/** Maps the flags to those shared settings that the recipe has. */
const recipeSettings = (
  { recipe }: LoadedRecipe,
  { model, adapter, seed, count, temperature = 1, maxNewTokens }: SampleFlags,
): Settings => {
  const wanted: readonly (readonly [string, unknown])[] = [
    ...([
      ['model', modelName(model, adapter)],
      ['seed', seed],
      ['tasks.prompts', count],
      ['tasks.group', 1],
      ['loss.algorithm', 'reinforce++'], // groups of one have advantages
    ] as const),
    ...([
      ['sampling.temperature', temperature],
      ['sampling.maxNewTokens', maxNewTokens],
    ] as const),
  ]
  const known = settingLeaves(recipe.settings).map(({ path }) => path.join('.'))
  if (model !== EMBEDDED_MODEL && !known.includes('model'))
    throw new CommandError(`the recipe ${recipe.name} has a model of its own: omit --model`)
  return wanted
    .filter(([path]) => known.includes(path))
    .reduce((settings, [path, value]) => withSetting(settings, path.split('.'), value), {} as Settings) // nothing yet
}

/** Plays the recipe's environment with its policy and prints the trajectories. */
const sampleRecipe = async (name: string, flags: SampleFlags): Promise<void> => {
  const loaded = await loadRecipe(name)
  const settings = checkedSettings(loaded.recipe, recipeSettings(loaded, flags))
  const run = await build(loaded, settings, { memory: 'ignore' })
  try {
    await run.begin?.()
    const source = await run.source.open({ step: 0, lastStep: 1, position: null, push: run.push })
    const open = { run, source, clock: liveClock }
    try {
      using sampled = await sampleStep(open, { step: 0, position: source.position, klCoefficient: 0 })
      for (const each of trajectoryRecordsOf(open.run, sampled)) {
        const text = `${each.query}\n${each.tokens.join('')}\n  reward ${each.reward}\n\n`
        print(flags.json === true ? `${JSON.stringify(each)}\n` : text)
      }
    } finally {
      await source.close()
    }
  } catch (error) {
    throw asCommandError(error)
  } finally {
    await run.close()
  }
}

/** The temperature for a person, where neither a flag nor the files of the model have one. */
const TALKING_TEMPERATURE = 0.3

/** Fields of generation_config.json and the options that replace them. */
const FROM_FILES = [
  ['temperature', 'temperature'],
  ['topK', 'top_k'],
  ['topP', 'top_p'],
] as const satisfies readonly (readonly [keyof SampleFlags, string])[]

/**
 * Returns the sampling of the flags, else of the model's generation_config.json, and prints a line
 * about those of the file.
 */
const talkingSampling = async (name: string, flags: SampleFlags) => {
  const { folder } = await orFail(modelFolders(name, { onProgress: downloadLines() }))
  const inFiles = new Map(await orFail(samplingDefaults(liveFiles, folder)))
  const found = FROM_FILES.flatMap(([option, field]) => {
    const value = inFiles.get(field)
    return flags[option] === undefined && typeof value === 'number' && value > 0 ? [[option, value] as const] : []
  })
  if (found.length > 0) say(`from generation_config.json: ${found.map((pair) => pair.join(' ')).join(', ')}\n`)
  const given = FROM_FILES.flatMap(([option]) => {
    const value = flags[option]
    return value === undefined ? [] : [[option, value] as const]
  })
  return { temperature: TALKING_TEMPERATURE, ...Object.fromEntries([...found, ...given]) }
}

const action = async (question: string | undefined, flags: SampleFlags): Promise<void> => {
  if (question !== undefined && flags.recipe !== undefined)
    throw new CommandError('a recipe provides its own questions: omit the question or --recipe')
  await startEngine(flags)
  if (flags.recipe !== undefined) return sampleRecipe(flags.recipe, flags)
  const name = modelName(flags.model, flags.adapter)
  const model = await orFail(loadPretrained(name, liveFiles, { onProgress: downloadLines() }))
  const requested = question ?? (await exampleQuestion(flags.seed))
  const completions = await orFail(
    sampleCompletions(model, requested, {
      count: flags.count,
      key: keyFromSeed(flags.seed),
      sampling: { maxNewTokens: flags.maxNewTokens, ...(await talkingSampling(name, flags)) },
    }),
  )
  if (flags.json === true) {
    for (const completion of completions) print(`${JSON.stringify({ question: requested, ...completion })}\n`)
    return
  }
  print(`${requested}\n\n`)
  for (const { text, logProb, stopReason } of completions) {
    const cut = stopReason === 'length' ? ' (cut off at the token limit)' : ''
    print(`${text}${cut}\n  log-probability ${logProb.toFixed(2)}\n`)
  }
}

/** Returns a held-out word problem, which the embedded model was trained for. */
const exampleQuestion = async (seed: number): Promise<string> => {
  const { query } = await orFail(async () => heldOutProblems().at(seed))
  return query
}

export const sampleCommand = (): Command => {
  const command = new Command('sample')
    .addArgument(new Argument('[question]', 'the question (default: a generated word problem)'))
    .option('--recipe <name>', 'play the environment of a recipe, by name or file, instead of a question')
    .addOption(modelOption('model'))
    .addOption(adapterOption('--model'))
    .addOption(new Option('--count <n>', 'number of completions').argParser(countFor('--count')).default(4))
    .addOption(
      new Option(
        '--temperature <x>',
        `sampling temperature; 0 is greedy (default: that of generation_config.json, else ${TALKING_TEMPERATURE}; with --recipe 1)`,
      ).argParser(nonNegativeNumber),
    )
    .addOption(new Option('--top-k <n>', 'sample from the k most probable tokens').argParser(positiveInteger))
    .addOption(
      new Option('--top-p <x>', 'sample from the most probable tokens with this total probability').argParser(share),
    )
    .addOption(
      new Option('--max-new-tokens <n>', 'longest completion in tokens')
        .argParser(countFor('--max-new-tokens'))
        .default(64),
    )
    .addOption(new Option('--seed <n>', 'seed of sampling').argParser(naturalNumber).default(1))
  for (const option of engineOptions()) command.addOption(option)
  return command.option('--json', 'print each completion as a line of JSON').action(action)
}
