/** Where the time of a step goes, from the recorded runs of sessions. */
import type { OperatorCall, ProfiledCall } from './trace.js'

/** What the machine reaches at its best, per second. */
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

/** The executions of one operator in a step. */
interface OperatorFigures extends OperatorCall {
  readonly count: number
  /** The least time at the machine's peaks: of its arithmetic or its memory, whichever is longer. */
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

const peakMs = ({ operations, bytes }: OperatorCall, peaks: Peaks): number =>
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

/** Adds up the calls of measured steps by operator, and divides the rest of the time into parts. */
export const stepFigures = ({ steps, wallMs, idleMs, calls }: MeasuredSteps, peaks: Peaks): StepFigures => {
  const byOperator = new Map<string, OperatorCall[]>()
  for (const call of calls.flatMap(({ operators }) => operators)) {
    const known = byOperator.get(call.operator)
    if (known === undefined) byOperator.set(call.operator, [call])
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
