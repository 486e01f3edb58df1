/** The layout of a run folder: file names, names of checkpoints, and the best evaluation. */

/** Paths relative to a run folder. */
export const RUN_LAYOUT = {
  metrics: 'metrics.jsonl',
  /** One folder for each checkpoint that was kept, named by its step. */
  checkpoints: 'checkpoints',
  /** The trained model, where the settings request one. */
  model: 'model',
  /** The model of the best checkpoint, where the settings request one. */
  bestModel: 'best/model',
} as const

const NAME = /^step-\d{6,}$/

/**
 * Returns the name of a folder that belongs to a step. Names sort by step.
 *
 * @example
 * stepName(12) // 'step-000012'
 */
export const stepName = (step: number): string => `step-${String(step).padStart(6, '0')}`

/** Returns the step of a name. */
export const stepOf = (name: string): number => Number(name.slice('step-'.length))

/**
 * Returns the names that `stepName` makes, sorted by step, without the others.
 *
 * @example
 * inOrder(['step-000012', 'notes', 'step-000002']) // ['step-000002', 'step-000012']
 */
export const inOrder = (names: readonly string[]): readonly string[] =>
  names.filter((name) => NAME.test(name)).sort((a, b) => stepOf(a) - stepOf(b))

/** The fields of an evaluation record that decide which one is best. */
export interface ScoredEvaluation {
  readonly type: 'evaluation'
  /** The evaluator. */
  readonly name: string
  /** Steps done before it. */
  readonly step: number
  readonly tasks: number
  /** The score that ranks evaluations. */
  readonly score: string
  /** Losses rank from low to high, everything else from high to low. */
  readonly measure: string
  readonly scores: Readonly<Record<string, number>>
}

/** Returns the score that ranks an evaluation, or NaN if it is missing. */
export const rankingScore = ({ scores, score }: Pick<ScoredEvaluation, 'score' | 'scores'>): number =>
  scores[score] ?? Number.NaN

const isBetter = (a: ScoredEvaluation, b: ScoredEvaluation): boolean =>
  a.measure === 'loss' ? rankingScore(a) < rankingScore(b) : rankingScore(a) > rankingScore(b)

/**
 * Returns the best evaluation of the first evaluator, the earliest of equal ones, or `undefined`.
 *
 * Evaluations of the initial weights, and those on another number of tasks than the last one, do
 * not count.
 *
 * @example
 * const kind = { type: 'evaluation', name: 'a', score: 'accuracy', measure: 'success' } as const
 * const at = (step: number, accuracy: number) => ({ ...kind, step, scores: { accuracy }, tasks: 8 })
 * bestEvaluation([at(0, 0.9), at(5, 0.5), at(10, 0.5)])?.step // 5
 */
export const bestEvaluation = <R extends ScoredEvaluation>(evaluations: readonly R[]): R | undefined => {
  const first = evaluations.filter(({ name }) => name === evaluations[0]?.name)
  const tasks = first.at(-1)?.tasks
  const [begin, ...rest] = first.filter((each) => each.step > 0 && each.tasks === tasks)
  return begin && rest.reduce((best, each) => (isBetter(each, best) ? each : best), begin)
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

/**
 * Returns true for an evaluation of the run. Every record of this type and shape was written by it.
 */
const isEvaluation = (record: unknown): record is ScoredEvaluation =>
  isRecord(record) &&
  record.type === 'evaluation' &&
  typeof record.step === 'number' &&
  typeof record.tasks === 'number' &&
  typeof record.name === 'string' &&
  typeof record.score === 'string' &&
  typeof record.measure === 'string' &&
  isRecord(record.scores)

const recordOf = (line: string): unknown => {
  try {
    return JSON.parse(line)
  } catch {
    return undefined // the last line of a run in progress may be incomplete
  }
}

/**
 * Returns the step of the best evaluation in the text of metrics.jsonl, or `undefined`.
 *
 * @example
 * bestStepOf('{"type":"evaluation","name":"a","step":5,"tasks":8,"score":"accuracy","measure":"success","scores":{"accuracy":0.5}}') // 5
 */
export const bestStepOf = (metrics: string): number | undefined =>
  bestEvaluation(metrics.split('\n').map(recordOf).filter(isEvaluation))?.step
