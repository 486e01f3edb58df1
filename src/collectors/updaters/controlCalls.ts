/** Control calls that end: with a deadline, a signal, and no second try before the engine has told its state. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Clock, Timers } from '../../core/capabilities.js'
import { errorMessage } from '../../core/failure.js'
import type { EngineClient, EngineFailure, EngineState } from '../../data/engineClient.js'

/** What calls need of the world. */
export interface CallWorld {
  readonly clock: Clock
  readonly timers: Timers
}

/** Time for several calls together. */
export interface Budget {
  /** Milliseconds, 0 when it is over or was cancelled. */
  readonly left: () => number
  readonly signal: AbortSignal | undefined
  readonly world: CallWorld
}

/** A budget that begins now. */
export const budgetOf = (ms: number, world: CallWorld, signal?: AbortSignal): Budget => {
  const end = world.clock.now() + ms
  return { left: () => (signal?.aborted === true ? 0 : Math.max(0, end - world.clock.now())), signal, world }
}

const failed = (engine: string, kind: EngineFailure['kind'], reason: string): E.Either<EngineFailure, never> =>
  E.left({ _tag: 'EngineFailure', engine, kind, reason })

/** Resolves when the budget is over, to why. */
const overOf = (budget: Budget): { readonly over: Promise<string>; readonly forget: () => void } => {
  let forget = (): void => {}
  const over = new Promise<string>((resolve) => {
    const onAbort = (): void => resolve('it was cancelled')
    const silence = budget.world.timers.after(budget.left(), () => resolve('the deadline has passed'))
    budget.signal?.addEventListener('abort', onAbort, { once: true })
    forget = () => {
      silence()
      budget.signal?.removeEventListener('abort', onAbort)
    }
  })
  return { over, forget }
}

/**
 * The answer of a call, if it comes in time. Not sent at all when the budget is over.
 *
 * Errors   those of the call; `refused` if it was not sent; `unknown` if the budget ended before the answer came, or the call threw.
 */
export const bounded = async <A>(
  engine: string,
  call: TaskEither<EngineFailure, A>,
  budget: Budget,
): Promise<E.Either<EngineFailure, A>> => {
  if (budget.left() <= 0) return failed(engine, 'refused', 'not sent: the deadline has passed, or it was cancelled')
  const { over, forget } = overOf(budget)
  try {
    return await Promise.race([call(), over.then((why) => failed(engine, 'unknown', `no answer: ${why}`))])
  } catch (error) {
    return failed(engine, 'unknown', errorMessage(error))
  } finally {
    forget()
  }
}

/** What the state of an engine says about a call whose answer is missing. */
export type Happened = 'yes' | 'no' | 'unclear'

/** A call that changes an engine. */
export interface Change {
  readonly call: TaskEither<EngineFailure, void>
  readonly happened: (state: EngineState) => Happened
}

/** The engine said no: what it has is as it was. */
const isCertain = ({ kind }: EngineFailure): boolean => kind === 'refused' || kind === 'missing'

/**
 * Changes an engine, once.
 *
 * Where the answer is missing the engine is asked for its state, and the call is sent a second time only if the state says that the first did
 * nothing. Answers `unclear` where the state cannot tell.
 *
 * Errors   `Left(EngineFailure)`: `refused` and `missing` changed nothing; after the others nobody knows.
 * Effects  `askMs` bounds each question for the state, whatever is left of the budget.
 */
export const changeOnce = async (
  client: EngineClient,
  { call, happened }: Change,
  budget: Budget & { readonly askMs: number },
): Promise<E.Either<EngineFailure, 'done' | 'unclear'>> => {
  const ask = async (): Promise<Happened | null> => {
    const state = await bounded(client.name, client.state, budgetOf(budget.askMs, budget.world))
    return E.isRight(state) ? happened(state.right) : null
  }
  const first = await bounded(client.name, call, budget)
  if (E.isRight(first)) return E.right('done')
  if (isCertain(first.left)) return first
  const seen = await ask()
  if (seen === 'yes') return E.right('done')
  if (seen === 'unclear') return E.right('unclear')
  if (seen === null || budget.left() <= 0) return first
  const second = await bounded(client.name, call, budget)
  if (E.isRight(second)) return E.right('done')
  // A first call that was slow rather than lost makes the engine refuse the second.
  return (await ask()) === 'yes' ? E.right('done') : E.left({ ...second.left, kind: first.left.kind })
}
