/** The comparison of two checkpoints on held-out tasks. */
import { countOf, meanInterval } from '@tandem-rl/base'
import type { EvaluationResult, Evaluator } from 'tandem-rl'
import { evaluationKey } from 'tandem-rl/run'
import type { ModelWork } from './modelDesk.js'
import type { DifferenceLine, EvaluateRequest, ProgressLine, ScoresLine, TaskLine } from './modelProtocol.js'
import type { Changes } from './openModel.js'
import type { ViewedRun } from './viewedRun.js'

/** The setting with the number of held-out tasks, changed if the recipe has it. */
const changesOf = async (run: ViewedRun, tasks: number | undefined): Promise<Changes> => {
  const { keep } = (await run.log()).settings
  const isThere = typeof keep === 'object' && keep !== null && 'evalTasks' in keep
  return tasks === undefined || !isThere ? {} : { 'keep.evalTasks': tasks }
}

/** The result of a task: the mean score of its attempts, and the first of them. */
interface TaskResult {
  readonly score: number
  readonly first: EvaluationResult
}

const byTask = (results: readonly EvaluationResult[]): ReadonlyMap<string, TaskResult> => {
  const scores = new Map<string, { first: EvaluationResult; scores: number[] }>()
  for (const result of results) {
    const own = scores.get(result.taskId)
    if (own === undefined) scores.set(result.taskId, { first: result, scores: [result.score] })
    else own.scores.push(result.score)
  }
  const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / numbers.length
  return new Map([...scores].map(([id, each]) => [id, { first: each.first, score: mean(each.scores) }]))
}

/** Two results of one task. */
interface Pair {
  readonly before: TaskResult
  readonly after: TaskResult
}

const pairsOf = (before: readonly EvaluationResult[], after: readonly EvaluationResult[]): readonly Pair[] => {
  const later = byTask(after)
  return [...byTask(before)].flatMap(([id, first]) => {
    const second = later.get(id)
    return second === undefined ? [] : [{ before: first, after: second }]
  })
}

const changeOf = ({ before, after }: Pair): number => after.score - before.score

/**
 * Computes the mean of paired differences with Student's 95 % interval. Equal differences that have
 * no bounds give no interval.
 */
const differenceOf = (
  changes: readonly number[],
  measure: Evaluator['measure'],
): Pick<DifferenceLine, 'mean' | 'low' | 'high' | 'higher' | 'lower' | 'same'> => {
  const isFlat = changes.every((each) => each === changes[0])
  const range = measure === 'success' ? ([-1, 1] as const) : ([-Infinity, Infinity] as const)
  const { estimate, low, high } = meanInterval(changes, range)
  const isKnown = measure === 'success' || !isFlat
  return {
    mean: estimate,
    low: isKnown ? low : null,
    high: isKnown ? high : null,
    higher: changes.filter((each) => each > 0).length,
    lower: changes.filter((each) => each < 0).length,
    same: changes.filter((each) => each === 0).length,
  }
}

/** Tasks that are shown of each evaluator: those with the largest differences. */
const SHOWN = 20

const SHOWN_CHARACTERS = 2000

const taskLine = (name: string, { before, after }: Pair): TaskLine => ({
  type: 'task',
  name,
  query: before.first.query.slice(0, SHOWN_CHARACTERS),
  answers: [before, after].map(({ first, score }) => ({ text: first.completion.slice(0, SHOWN_CHARACTERS), score })),
})

const comparison = (
  { name, measure }: Evaluator,
  [before = [], after = []]: readonly (readonly EvaluationResult[])[],
): readonly (DifferenceLine | TaskLine)[] => {
  const pairs = pairsOf(before, after)
  const different = pairs.filter((pair) => changeOf(pair) !== 0)
  const shown = different.sort((a, b) => Math.abs(changeOf(b)) - Math.abs(changeOf(a))).slice(0, SHOWN)
  return [
    { type: 'difference', name, measure, tasks: pairs.length, ...differenceOf(pairs.map(changeOf), measure) },
    ...shown.map((pair) => taskLine(name, pair)),
  ]
}

/** Yields the scores of two checkpoints on the same tasks, and their differences task by task. */
export const evaluateLines = ({ checkpoints, tasks }: EvaluateRequest) =>
  async function* ({
    run,
    open,
    signal,
  }: ModelWork): AsyncGenerator<ProgressLine | ScoresLine | DifferenceLine | TaskLine> {
    yield { type: 'progress', message: 'opening the run' }
    const model = await open(await changesOf(run, tasks))
    const results = new Map<string, EvaluationResult[][]>()
    for (const [place, checkpoint] of checkpoints.entries()) {
      await model.learnerAt(checkpoint)
      const { evaluate } = model.run()
      if (evaluate.length === 0) throw new RangeError('the recipe has no evaluators')
      for (const evaluator of evaluate) {
        const { name } = evaluator
        const own: EvaluationResult[] = []
        results.set(name, [...(results.get(name) ?? []).slice(0, place), own])
        for await (const part of evaluator.run(evaluationKey(name))) {
          own.push(...part.results)
          if (signal.aborted) return
          yield {
            type: 'progress',
            message: `${name}, step ${checkpoint}: ${part.done} of ${countOf(part.tasks, 'task')}`,
          }
        }
        yield { type: 'scores', checkpoint, name, scores: evaluator.scoresOf(own) }
      }
    }
    for (const evaluator of model.run().evaluate) yield* comparison(evaluator, results.get(evaluator.name) ?? [])
  }
