/** Divides the time of a step into operators and other parts. */
import type { OperatorCall, ProfiledCall } from './trace.js'

/** The highest measured rates of the machine, per second. */
export interface Peaks {
  readonly operations: number
  readonly bytes: number
}

/** Measured steps, by the clock and the event loop of this thread. */
export interface MeasuredSteps {
  readonly steps: number
  readonly wallMs: number
  /** The time in which this thread waited for others. */
  readonly idleMs: number
  readonly calls: readonly ProfiledCall[]
}

/** The calls of a row: all of an operator, or those with the same shapes. */
export const GROUPINGS = ['operator', 'shapes'] as const
export type Grouping = (typeof GROUPINGS)[number]

/** The executions of one operator in a step. */
interface OperatorFigures extends Omit<OperatorCall, 'shapes'> {
  readonly count: number
  /**
   * The least time at the machine's peaks: of its arithmetic or its memory, whichever is longer.
   */
  readonly peakMs: number
}

/** A part of a step that is no operator. */
interface Part {
  readonly name: string
  readonly milliseconds: number
}

/** One step; all numbers are means over the measured steps. */
export interface StepFigures {
  readonly stepMs: number
  /** The longest first. */
  readonly operators: readonly OperatorFigures[]
  readonly parts: readonly Part[]
}

const sum = <T>(items: readonly T[], of: (item: T) => number): number =>
  items.reduce((total, item) => total + of(item), 0)

const peakMs = ({ operations, bytes }: Pick<OperatorCall, 'operations' | 'bytes'>, peaks: Peaks): number =>
  1000 * Math.max(operations / peaks.operations, bytes / peaks.bytes)

const figuresOf = (
  operator: string,
  calls: readonly OperatorCall[],
  { steps, peaks }: { readonly steps: number; readonly peaks: Peaks },
): OperatorFigures => ({
  operator,
  count: calls.length / steps,
  milliseconds: sum(calls, (call) => call.milliseconds) / steps,
  operations: sum(calls, (call) => call.operations) / steps,
  bytes: sum(calls, (call) => call.bytes) / steps,
  peakMs: sum(calls, (call) => peakMs(call, peaks)) / steps,
})

/** Adds up the calls of measured steps, and divides the rest of the time into parts. */
export const stepFigures = (
  { steps, wallMs, idleMs, calls }: MeasuredSteps,
  peaks: Peaks,
  grouping: Grouping = 'operator',
): StepFigures => {
  const byOperator = new Map<string, OperatorCall[]>()
  for (const call of calls.flatMap(({ operators }) => operators)) {
    const name = grouping === 'operator' ? call.operator : `${call.operator} ${call.shapes}`
    const known = byOperator.get(name)
    if (known === undefined) byOperator.set(name, [call])
    else known.push(call)
  }
  const operators = [...byOperator]
    .map(([operator, own]) => figuresOf(operator, own, { steps, peaks }))
    .sort((a, b) => b.milliseconds - a.milliseconds)
  const [inner, outer] = [sum(calls, (call) => call.innerMs), sum(calls, (call) => call.outerMs)]
  const inOperators = sum(operators, (operator) => operator.milliseconds)
  return {
    stepMs: wallMs / steps,
    operators,
    parts: [
      { name: 'between operators', milliseconds: inner / steps - inOperators },
      { name: 'feeds and results', milliseconds: (outer - inner) / steps },
      { name: 'JavaScript', milliseconds: (wallMs - idleMs - outer) / steps },
      { name: 'waiting', milliseconds: idleMs / steps },
    ],
  }
}

/** Returns the share of a step that is left if every operator ran at the machine's peaks. */
export const rooflineShare = ({ stepMs, operators }: StepFigures): number =>
  sum(operators, (operator) => operator.peakMs) / stepMs
