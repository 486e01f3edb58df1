/**
 * Control calls with a deadline and a signal, which are retried only after the engine has reported
 * its state.
 */
import { type Clock, errorMessage, type Timers } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { EngineClient, EngineFailure, EngineState } from '../../data/engineClient.js'

/** The capabilities that calls need. */
export interface CallWorld {
  readonly clock: Clock
  readonly timers: Timers
}

/** A time limit for several calls together. */
export interface Budget {
  /** Remaining milliseconds; 0 after the deadline or cancellation. */
  readonly left: () => number
  readonly signal: AbortSignal | undefined
  readonly world: CallWorld
}

/** Makes a budget that starts now. */
export const budgetOf = (ms: number, world: CallWorld, signal?: AbortSignal): Budget => {
  const end = world.clock.now() + ms
  return { left: () => (signal?.aborted === true ? 0 : Math.max(0, end - world.clock.now())), signal, world }
}

const failed = (engine: string, kind: EngineFailure['kind'], reason: string): E.Either<EngineFailure, never> =>
  E.left({ _tag: 'EngineFailure', engine, kind, reason })

/** Resolves with the reason when the budget ends. */
const overOf = (budget: Budget): { readonly over: Promise<string>; readonly forget: () => void } => {
  let forget = (): void => {}
  const over = new Promise<string>((resolve) => {
    const onAbort = (): void => resolve('it was cancelled')
    const cancelTimer = budget.world.timers.after(budget.left(), () => resolve('the deadline has passed'))
    budget.signal?.addEventListener('abort', onAbort, { once: true })
    forget = () => {
      cancelTimer()
      budget.signal?.removeEventListener('abort', onAbort)
    }
  })
  return { over, forget }
}

/**
 * Returns the response of a call if it arrives in time. The call is not sent if the budget is used
 * up.
 *
 * Errors   those of the call; `refused` if it was not sent; `unknown` if the budget ended before
 *          the response, or the call threw.
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

/** The effect of a call without a response, according to the engine's state. */
export type Happened = 'yes' | 'no' | 'unclear'

/** A call that changes an engine. */
export interface Change {
  readonly call: TaskEither<EngineFailure, void>
  readonly happened: (state: EngineState) => Happened
}

/** Returns true if the engine refused the call, so that its state is unchanged. */
const isCertain = ({ kind }: EngineFailure): boolean => kind === 'refused' || kind === 'missing'

/**
 * Changes an engine exactly once.
 *
 * If the response is missing, the engine's state is requested. The call is repeated only if the
 * state shows that the first one had no effect. Returns `unclear` if the state does not show it.
 *
 * Errors   `Left(EngineFailure)`. After `refused` and `missing` the engine is unchanged; after
 *          other kinds its state is unknown.
 * Effects  `askMs` limits each request for the state, regardless of the remaining budget.
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
  // If the first call was slow rather than lost, the engine refuses the second one.
  return (await ask()) === 'yes' ? E.right('done') : E.left({ ...second.left, kind: first.left.kind })
}
