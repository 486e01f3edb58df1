/** `tandem eval`: runs the evaluations of a recipe for one model. */
import { countOf, untilAborted } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import cliProgress from 'cli-progress'
import { Command } from 'commander'
import { changedInputs } from '../data/inputs.js'
import type { EvaluationResult, Evaluator } from '../run/metrics/evaluation.js'
import { scoreText } from '../run/metrics/records.js'
import type { AnyRun } from '../run/parts/run.js'
import { evaluationKey } from '../run/train/train.js'
import { threadsOfRun } from './calibration.js'
import { asCommandError } from './expectedErrors.js'
import { CommandError } from './failure.js'
import { interruptible } from './interruption.js'
import { type EngineOptions, engineOptions, startEngine } from './options.js'
import { build, type Chosen, checkFirst, choose, type Settings, say, settingsOf } from './plan.js'
import { addRecipeFlags } from './recipeFlags.js'

type Flags = EngineOptions & Settings & { readonly json?: true }

/**
 * Runs one evaluator, with a progress bar on a terminal. Prints no scores after an interruption.
 */
const measured = async (evaluator: Evaluator, { json }: Flags, signal: AbortSignal): Promise<void> => {
  const { name, score, measure, tasks } = evaluator
  const bar = process.stderr.isTTY
    ? new cliProgress.SingleBar({
        stream: process.stderr,
        format: '{bar} {value}/{total} tasks | {eta_formatted} left',
      })
    : undefined
  bar?.start(tasks, 0)
  const results: EvaluationResult[] = []
  const started = performance.now()
  try {
    for await (const part of untilAborted(evaluator.run(evaluationKey(name)), signal)) {
      results.push(...part.results)
      bar?.update(part.done)
      if (json === true)
        for (const result of part.results) print(`${JSON.stringify({ type: 'result', name, ...result })}\n`)
    }
  } finally {
    bar?.stop()
  }
  if (signal.aborted) return
  const scores = evaluator.scoresOf(results)
  const seconds = (performance.now() - started) / 1000
  const { [score]: value = Number.NaN, ...others } = scores
  const rest = Object.entries(others).map(([what, number]) => `${what} ${number.toPrecision(4)}`)
  print(
    json === true
      ? `${JSON.stringify({ type: 'scores', name, tasks, scores, seconds })}\n`
      : `${name}, ${countOf(tasks, 'task')}: ${[`${score} ${scoreText(measure, value)}`, ...rest].join(', ')}, ${seconds.toFixed(1)} s\n`,
  )
}

/** Warns if the evaluations of a run's model have other rows or templates than those of the run. */
const warnOfChanges = ({ run: named }: Chosen, run: AnyRun): void => {
  const was = named?.config.inputs
  const names = was === undefined ? [] : changedInputs(was, { ...was, ...run.inputs() })
  if (names.length > 0) say(`warning: changed since the run: ${names.join('; ')}\n`)
}

const action =
  (chosen: Chosen) =>
  async (given: string | undefined, flags: Flags): Promise<void> => {
    checkFirst(chosen, given)
    const ofRun = chosen.run !== null && 'model' in chosen.recipe.settings.shape ? { model: chosen.run.folder } : {}
    const settings = await settingsOf(chosen, flags, ofRun)
    await startEngine({ ...threadsOfRun(chosen, settings), ...flags })
    const run = await build(chosen, settings, { memory: 'ignore' })
    warnOfChanges(chosen, run)
    await interruptible('\nstopping the evaluation', async (signal) => {
      try {
        if (run.evaluate.length === 0) throw new CommandError(`the recipe ${chosen.recipe.name} has no evaluators`)
        for (const evaluator of run.evaluate) if (!signal.aborted) await measured(evaluator, flags, signal)
      } catch (error) {
        throw asCommandError(error)
      } finally {
        await run.close()
      }
    })
  }

/** Makes the command, with flags for the settings of the recipe that the arguments name. */
export const evalCommand = async (args: readonly string[]): Promise<Command> => {
  const chosen = await choose(args, 'first')
  const command = new Command('eval')
    .description(`Evaluate a model with the evaluators of a recipe. ${chosen.recipe.name}: ${chosen.recipe.summary}`)
    .argument('[recipe]', 'a recipe by name or file, or a run folder, for its best model (default: wordProblems)')
  addRecipeFlags(command, chosen.recipe)
  for (const option of engineOptions()) command.addOption(option)
  return command.option('--json', 'print all results and scores as lines of JSON').action(action(chosen))
}
