/**
 * Fault injection: makes functions of a record that return tasks (files, an environment, a policy)
 * fail, throw or wait.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** A fault of a call. */
export type Fault<F> =
  | { readonly _tag: 'Fail'; readonly failure: F }
  /** Rejects the promise, like a program with a bug. */
  | { readonly _tag: 'Throw'; readonly error: Error }
  /** Starts the call when the promise resolves. */
  | { readonly _tag: 'Wait'; readonly until: () => Promise<unknown> }

/** A call that is about to start. */
export interface FaultyCall<C> {
  readonly operation: keyof C & string
  /** Number of earlier calls of this operation. */
  readonly number: number
  readonly args: readonly unknown[]
}

/** The failures that the operations of a record can return. */
type FailureOf<C> = {
  [K in keyof C]: C[K] extends (...args: never) => TaskEither<infer F, unknown> ? F : never
}[keyof C]

/** Returns the fault of a call, or `undefined` for a normal call. */
export type FaultPlan<C> = (call: FaultyCall<C>) => Fault<FailureOf<C>> | undefined

/**
 * Runs a task with a fault: not at all, after a wait, or normally.
 *
 * Errors   rejects with the error of a `Throw`.
 */
export const disturbed =
  <F, T>(fault: Fault<F> | undefined, task: TaskEither<F, T>): TaskEither<F, T> =>
  async () => {
    switch (fault?._tag) {
      case 'Fail':
        return E.left(fault.failure)
      case 'Throw':
        throw fault.error
      case 'Wait':
        await fault.until()
        return task()
      case undefined:
        return task()
    }
  }

/**
 * Returns a record whose calls have the faults of a plan. A call is counted when its task runs, not
 * when it is made.
 *
 * Functions that return no task (such as the `now` of a clock) and other fields are unchanged.
 *
 * Effects  counts calls.
 *
 * @example
 * withFaults(liveFiles, failNth('write', 2, fileFailure('write', 'x', { code: 'ENOSPC', reason: 'full' })))
 */
export const withFaults = <C extends object>(capability: C, plan: FaultPlan<C>): C => {
  const counts = new Map<string, number>()
  const guarded =
    (operation: keyof C & string, f: (...args: readonly unknown[]) => unknown) =>
    (...args: readonly unknown[]): unknown => {
      const result = f(...args)
      if (typeof result !== 'function') return result
      return () => {
        const number = counts.get(operation) ?? 0
        counts.set(operation, number + 1)
        const fault = plan({ operation, number, args })
        return disturbed(fault, result as TaskEither<FailureOf<C>, unknown>)() // a function returned by a call is a task
      }
    }
  const fields = Object.entries(capability).map(([name, field]) => [
    name,
    typeof field === 'function' ? guarded(name as keyof C & string, field) : field, // a key of the record
  ])
  return Object.fromEntries(fields) as C // the same fields, with functions of the same types
}

/**
 * Makes a plan in which call `number` of one operation, counted from 0, returns a failure.
 *
 * Errors   throws RangeError unless `number` is a natural number.
 *
 * @example
 * failNth('step', 1, 'no')({ operation: 'step', number: 1, args: [] }) // { _tag: 'Fail', failure: 'no' }
 */
export const failNth = <F>(operation: string, number: number, failure: F) => {
  if (!Number.isInteger(number) || number < 0)
    throw new RangeError(`failNth: number must be a natural number, got ${number}`)
  return (call: { readonly operation: string; readonly number: number }): Fault<F> | undefined =>
    call.operation === operation && call.number === number ? { _tag: 'Fail', failure } : undefined
}
