/** `tandem eval`: greedy accuracy of a model on problems. */
import cliProgress from 'cli-progress'
import { Command, Option } from 'commander'
import { child, keyFromSeed } from '../core/key.js'
import { scope } from '../engine/scope.js'
import { liveFiles } from '../live/files.js'
import { loadPretrained, makeParams } from '../modules/pretrained.js'
import { TransformersWrapper } from '../modules/transformersWrapper.js'
import { evaluateProblems, type ProblemResult, scoresOf } from '../run/evaluate.js'
import { evaluationTasks } from '../run/tasks.js'
import { asCommandError, orFail } from './failure.js'
import {
  DATASET_ARGUMENT,
  DATASET_HELP,
  datasetName,
  downloadLines,
  type EngineOptions,
  engineOptions,
  modelOption,
  positiveInteger,
  startEngine,
} from './options.js'

interface EvalFlags extends EngineOptions {
  readonly model: string
  readonly dataset?: string
  readonly problems?: number
  readonly maxNewTokens: number
  readonly batch: number
  readonly json?: boolean
}

const percent = (share: number): string => `${(100 * share).toFixed(2)} %`

const action = async (flags: EvalFlags): Promise<void> => {
  await startEngine(flags)
  const model = await orFail(loadPretrained(flags.model, liveFiles, { onProgress: downloadLines() }))
  const tasks = await orFail(
    evaluationTasks({
      ...(flags.dataset !== undefined && { dataset: datasetName(flags.dataset) }),
      ...(flags.problems !== undefined && { problems: flags.problems }),
    }),
  )
  const policy = scope(() =>
    TransformersWrapper({
      config: model.config,
      params: makeParams(model.arrays),
      sampling: { temperature: 0, maxNewTokens: flags.maxNewTokens },
    }),
  )
  const bar = process.stderr.isTTY
    ? new cliProgress.SingleBar({
        stream: process.stderr,
        format: '{bar} {value}/{total} problems | {eta_formatted} left',
      })
    : undefined
  bar?.start(tasks.problems, 0)
  const results: ProblemResult[] = []
  const started = performance.now()
  try {
    const parts = evaluateProblems({
      text: model.text,
      policy,
      source: tasks.source,
      problems: tasks.problems,
      key: child(keyFromSeed(0), 'eval'),
      batch: flags.batch,
    })
    for await (const part of parts) {
      results.push(...part)
      bar?.update(results.length)
      if (flags.json === true)
        for (const result of part) process.stdout.write(`${JSON.stringify({ type: 'problem', ...result })}\n`)
    }
  } catch (error) {
    throw asCommandError(error)
  } finally {
    bar?.stop()
    policy.release()
  }
  const seconds = (performance.now() - started) / 1000
  const scores = { type: 'scores', dataset: tasks.source.name, ...scoresOf(results), seconds }
  process.stdout.write(
    flags.json === true
      ? `${JSON.stringify(scores)}\n`
      : `${scores.problems} problems of ${scores.dataset}: ${percent(scores.accuracy)} right, ${percent(scores.worked)} worked out, ` +
          `${scores.completionTokens.toFixed(1)} tokens each, ${seconds.toFixed(1)} s\n`,
  )
}

export const evalCommand = (): Command => {
  const command = new Command('eval')
    .description('Answer problems greedily and count the right answers.')
    .addOption(modelOption('model'))
    .option(`--dataset ${DATASET_ARGUMENT}`, `${DATASET_HELP} (default: held-out generated problems)`)
    .addOption(
      new Option('--problems <n>', 'how many problems (default: all rows, or 200 generated ones)').argParser(
        positiveInteger,
      ),
    )
    .addOption(
      new Option('--max-new-tokens <n>', 'longest completion in tokens').argParser(positiveInteger).default(64),
    )
    .addOption(new Option('--batch <n>', 'problems answered at a time').argParser(positiveInteger).default(200))
  for (const option of engineOptions()) command.addOption(option)
  return command.option('--json', 'print every answer and the scores as lines of JSON').action(action)
}
