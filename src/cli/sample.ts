/** `tandem sample`: completions of a question, on the screen. */
import { Argument, Command, Option } from 'commander'
import { keyFromSeed } from '../core/key.js'
import { liveFiles } from '../live/files.js'
import { loadPretrained } from '../modules/pretrained.js'
import { sampleCompletions } from '../training/sample.js'
import { heldOutProblems } from '../training/tasks.js'
import { orFail } from './failure.js'
import {
  downloadLines,
  type EngineOptions,
  engineOptions,
  modelOption,
  naturalNumber,
  nonNegativeNumber,
  positiveInteger,
  share,
  startEngine,
} from './options.js'

interface SampleFlags extends EngineOptions {
  readonly model: string
  readonly count: number
  readonly temperature: number
  readonly topK?: number
  readonly topP?: number
  readonly maxNewTokens: number
  readonly seed: number
  readonly json?: boolean
}

const action = async (question: string | undefined, flags: SampleFlags): Promise<void> => {
  await startEngine(flags)
  const model = await orFail(loadPretrained(flags.model, liveFiles, { onProgress: downloadLines() }))
  const asked = question ?? (await exampleQuestion(flags.seed))
  const completions = await orFail(
    sampleCompletions(model, asked, {
      count: flags.count,
      key: keyFromSeed(flags.seed),
      sampling: {
        temperature: flags.temperature,
        maxNewTokens: flags.maxNewTokens,
        ...(flags.topK !== undefined && { topK: flags.topK }),
        ...(flags.topP !== undefined && { topP: flags.topP }),
      },
    }),
  )
  if (flags.json === true) {
    for (const completion of completions)
      process.stdout.write(`${JSON.stringify({ question: asked, ...completion })}\n`)
    return
  }
  process.stdout.write(`${asked}\n\n`)
  for (const { text, logProb, stopReason } of completions) {
    const cut = stopReason === 'length' ? ' (cut off at the token limit)' : ''
    process.stdout.write(`${text}${cut}\n  log-probability ${logProb.toFixed(2)}\n`)
  }
}

/** One of the held-out problems that the embedded model is made for. */
const exampleQuestion = async (seed: number): Promise<string> => {
  const { query } = await orFail(async () => heldOutProblems().at(seed))
  return query
}

export const sampleCommand = (): Command => {
  const command = new Command('sample')
    .description('Sample completions of a question.')
    .addArgument(new Argument('[question]', 'what to ask (default: a generated word problem)'))
    .addOption(modelOption('model'))
    .addOption(new Option('--count <n>', 'completions').argParser(positiveInteger).default(4))
    .addOption(
      new Option('--temperature <x>', '0 for the most probable tokens').argParser(nonNegativeNumber).default(1),
    )
    .addOption(new Option('--top-k <n>', 'choose among the k most probable tokens').argParser(positiveInteger))
    .addOption(new Option('--top-p <x>', 'choose among the tokens that make up this probability').argParser(share))
    .addOption(
      new Option('--max-new-tokens <n>', 'longest completion in tokens').argParser(positiveInteger).default(64),
    )
    .addOption(new Option('--seed <n>', 'seed of sampling').argParser(naturalNumber).default(1))
  for (const option of engineOptions()) command.addOption(option)
  return command.option('--json', 'print one JSON object for each completion').action(action)
}
