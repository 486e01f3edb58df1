/** Step records as columns: one value per step for each metric, and the phases of the steps. */
import { ownValue } from '@tandem-rl/base'
import type { EvaluationRecord, StepRecord } from 'tandem-rl/run'
import type { MetricsAnswer, PhasesAnswer } from './protocol.js'
import type { RowNumbers } from './rowNumbers.js'
import type { RunLog } from './viewedRun.js'

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the numbers of a nested record with their dotted paths. */
const numbersIn = (record: Readonly<Record<string, unknown>>, path: string): readonly (readonly [string, number])[] =>
  Object.entries(record).flatMap(([name, value]): readonly (readonly [string, number])[] => {
    if (typeof value === 'number') return [[path + name, value]]
    return isRecord(value) ? numbersIn(value, `${path}${name}.`) : []
  })

/** Fields of a step record that are no metrics. */
const OTHER = new Set(['type', 'step', 'updates'])

/** Returns all columns of the steps, in order of first appearance. */
const metricColumns = (steps: readonly StepRecord[]): MetricsAnswer => {
  const columns = new Map<string, (number | null)[]>()
  for (const [i, step] of steps.entries()) {
    const fields = Object.fromEntries(Object.entries(step).filter(([name]) => !OTHER.has(name)))
    for (const [name, value] of numbersIn(fields, '')) {
      const column = columns.get(name) ?? Array<number | null>(steps.length).fill(null)
      column[i] = value
      columns.set(name, column)
    }
  }
  return { step: steps.map(({ step }) => step), columns: Object.fromEntries(columns) }
}

/** Returns the columns of a run. */
export const columnsOf = ({ steps, columns }: Pick<RunLog, 'steps' | 'columns'>): MetricsAnswer =>
  columns ?? metricColumns(steps)

/** Returns the means of rollouts by step as columns: for logs without records of steps. */
export const rolloutColumns = (rows: readonly RowNumbers[]): MetricsAnswer => {
  const steps = [...new Set(rows.map(({ step }) => step))].sort((a, b) => a - b)
  const byStep = new Map(steps.map((step): [number, RowNumbers[]] => [step, []]))
  for (const row of rows) byStep.get(row.step)!.push(row) // made above
  const partNames = [...new Set(rows.flatMap(({ parts }) => Object.keys(parts)))]
  const mean = (numberOf: (row: RowNumbers) => number): readonly number[] =>
    [...byStep.values()].map((own) => own.reduce((sum, row) => sum + numberOf(row), 0) / own.length)
  return {
    step: steps,
    columns: {
      reward: mean(({ reward }) => reward),
      ...Object.fromEntries(
        partNames.map((name) => [`parts.${name}`, mean(({ parts }) => ownValue(parts, name) ?? 0)]),
      ),
      completionTokens: mean(({ length }) => length),
      truncated: mean(({ truncated }) => Number(truncated)),
      turns: mean(({ turns }) => turns),
      toolCalls: mean(({ toolCalls }) => toolCalls),
    },
  }
}

/** Keeps the named columns. A name without a column is left out. */
export const selectColumns = ({ step, columns }: MetricsAnswer, names: readonly string[]): MetricsAnswer => ({
  step,
  columns: Object.fromEntries(
    names.flatMap((name) => {
      const column = ownValue(columns, name)
      return column === undefined ? [] : [[name, column] as const]
    }),
  ),
})

const rate = (amount: number | undefined, seconds: number): number | null =>
  amount === undefined || seconds <= 0 ? null : amount / seconds

/** A step as logged. Older logs have no memory. */
type LoggedStep = Omit<StepRecord, 'memory'> & Partial<Pick<StepRecord, 'memory'>>

/** Returns the phases, memory, speed, groups and staleness of every step. */
export const phasesOf = (steps: readonly LoggedStep[], evaluations: readonly EvaluationRecord[]): PhasesAnswer => {
  const evaluated = (step: number): number =>
    evaluations.filter((each) => each.step === step).reduce((sum, { seconds }) => sum + seconds, 0)
  return {
    step: steps.map(({ step }) => step),
    seconds: {
      generation: steps.map(({ seconds }) => seconds.generation),
      environment: steps.map(({ seconds }) => seconds.environment),
      ...(steps.some(({ seconds }) => seconds.reference !== undefined) && {
        reference: steps.map(({ seconds }) => seconds.reference ?? 0),
      }),
      training: steps.map(({ seconds }) => seconds.training),
      weightSync: steps.map(({ seconds }) => seconds.weightSync),
      evaluation: steps.map(({ step }) => evaluated(step)),
    },
    memory: {
      resident: steps.map(({ memory }) => memory?.residentBytes ?? null),
      graphs: steps.map(({ memory }) => memory?.graphs ?? null),
    },
    tokensPerSecond: {
      generation: steps.map(({ sampling, seconds }) => rate(sampling?.tokens, seconds.generation)),
      training: steps.map(({ update, seconds }) => rate(update.tokens, seconds.training)),
    },
    groups: {
      used: steps.map(({ groupsUsed }) => groupsUsed),
      withoutSignal: steps.map(({ sampling }) => sampling?.withoutSignal ?? null),
      dropped: steps.map(({ groupsDropped }) => groupsDropped),
    },
    staleness: {
      mean: steps.map(({ overlap }) => overlap?.meanLag ?? null),
      max: steps.map(({ overlap }) => overlap?.maxLag ?? null),
    },
    samplingSeconds: steps.map(({ overlap }) => overlap?.samplingSeconds ?? null),
    overlapSeconds: steps.map(({ overlap }) => overlap?.bothSeconds ?? null),
  }
}
