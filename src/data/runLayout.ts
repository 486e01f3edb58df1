/** Names inside a run folder that finding its model needs. */

/** Paths relative to a run folder. */
export const RUN_LAYOUT = {
  metrics: 'metrics.jsonl',
  /** One folder for each checkpoint that was kept, named by its step. */
  checkpoints: 'checkpoints',
  /** The trained model, where the settings request one. */
  model: 'model',
  /** The model that was best on held-out problems, where the settings request one. */
  bestModel: 'best/model',
} as const

/**
 * Returns the step of a checkpoint's folder name, or `undefined` for another name.
 *
 * @example
 * checkpointStep('step-000012') // 12
 */
export const checkpointStep = (name: string): number | undefined =>
  /^step-\d{6,}$/.test(name) ? Number(name.slice('step-'.length)) : undefined

/** An evaluation as metrics.jsonl records it. */
interface Evaluation {
  readonly type: 'evaluation'
  readonly step: number
  readonly accuracy: number
  readonly problems: number
}

const isEvaluation = (record: unknown): record is Evaluation =>
  typeof record === 'object' &&
  record !== null &&
  'type' in record &&
  record.type === 'evaluation' &&
  'step' in record &&
  typeof record.step === 'number' &&
  'accuracy' in record &&
  typeof record.accuracy === 'number' &&
  'problems' in record &&
  typeof record.problems === 'number'

const recordOf = (line: string): unknown => {
  try {
    return JSON.parse(line)
  } catch {
    return undefined // the last line of a run in progress may be incomplete
  }
}

/**
 * Returns the step with the highest accuracy in the text of metrics.jsonl: the earliest of several, among evaluations of trained
 * weights on as many problems as the last one. Returns `undefined` if there is none.
 *
 * @example
 * bestStepOf('{"type":"evaluation","step":5,"accuracy":0.5,"problems":8}') // 5
 */
export const bestStepOf = (metrics: string): number | undefined => {
  const evaluations = metrics.split('\n').map(recordOf).filter(isEvaluation)
  const problems = evaluations.at(-1)?.problems
  const [first, ...rest] = evaluations.filter((each) => each.step > 0 && each.problems === problems)
  return first && rest.reduce((best, each) => (each.accuracy > best.accuracy ? each : best), first).step
}
