import type * as E from 'fp-ts/lib/Either.js'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Clock } from '../core/capabilities.js'
import { orThrow } from '../core/failure.js'
import { child, type Key } from '../core/key.js'
import type { RowIdentity, TokenMasks } from '../data/batch.js'
import type { Policy, PolicyFailure, TokenAction, TokenPrompt } from '../data/policy.js'
import { exclude } from '../data/tensorDict/edit.js'
import { concat } from '../data/tensorDict/joining.js'
import { type Data, data, filledRows, joinRows, meta, type Ragged } from '../data/tensorDict/leaf.js'
import { assign, type DeepMerge, merge } from '../data/tensorDict/merge.js'
import { take } from '../data/tensorDict/selecting.js'
import { find, get, isTensorDict, TensorDict } from '../data/tensorDict/tensorDict.js'
import { type Owned, own, scope } from '../engine/scope.js'
import { type Env, type EnvFailure, nextRequest, type Outcome, REMEMBERED } from '../envs/env.js'
import type { Stepped } from '../envs/transforms/transform.js'
import { liveClock } from '../live/clock.js'
import { rowsByTrajectory, trajectoryId, withOwnGroups } from './rollouts/identity.js'

/** Collecting could not go on. */
export type CollectorFailure = EnvFailure | PolicyFailure | EndlessEpisode

/** An episode did not end within the limit of turns. */
export interface EndlessEpisode {
  readonly _tag: 'EndlessEpisode'
  readonly maxTurns: number
  readonly reason: string
}

/** Where collecting goes on: plain JSON, to be stored in a checkpoint. */
export interface CollectorPosition {
  /** Batches collected so far. */
  readonly batch: number
  /** What the environment's transforms remember, by their places. */
  readonly remembered: Readonly<Record<string, unknown>>
}

/** What the collector adds to states and actions: one row for each turn of each trajectory. */
export type TurnEntries = RowIdentity &
  TokenMasks & {
    readonly tokens: TensorDict<{ readonly full: Ragged<'int32'> }>
    /** NaN where nobody knows it: over the prompt. `full[t]` belongs to token t, given the tokens before it. */
    readonly logProbs: TensorDict<{ readonly full: Ragged<'float32'> }>
    readonly status: Data<'ok'>
    /** The row's share of the milliseconds that the policy took: the sum over a batch is the time of all of its calls. */
    readonly generationMs: Data<number>
  }

/** Rows of a collected batch, in the order of trajectories and turns. */
export type CollectedBatch<O> = TensorDict<
  DeepMerge<DeepMerge<DeepMerge<O, TokenAction>, TurnEntries>, { readonly next: TensorDict<Stepped<O>> }>
>

export interface LLMCollectorOptions<O extends TokenPrompt> {
  readonly env: Env<O, TokenAction>
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly key: Key
  /** Default: the beginning. */
  readonly start?: CollectorPosition
  /** An episode that has not ended after this many turns is a failure. Default 64. */
  readonly maxTurns?: number
  readonly clock?: Clock
}

/** A batch and where to go on. */
export interface Collected<O> {
  readonly batch: Owned<CollectedBatch<O>>
  readonly position: CollectorPosition
}

export interface LLMCollector<O> extends AsyncIterable<CollectedBatch<O>> {
  readonly start: CollectorPosition
  /** Collects the batch at a position. Equal positions give equal batches, if environment and policy are pure. */
  readonly collect: (position: CollectorPosition) => TaskEither<CollectorFailure, Collected<O>>
}

const rememberedOf = (state: TensorDict): Readonly<Record<string, unknown>> => {
  const node = find(state, [REMEMBERED])
  if (!isTensorDict(node)) return {}
  return Object.fromEntries(
    node.entries
      .entrySeq()
      .toArray()
      .flatMap(([place, entry]) => ('_tag' in entry && entry._tag === 'Meta' ? [[place, entry.value]] : [])),
  )
}

const requestOf = (remembered: Readonly<Record<string, unknown>>, batchSize: number): TensorDict =>
  nextRequest(
    TensorDict(
      { [REMEMBERED]: Object.fromEntries(Object.entries(remembered).map(([place, state]) => [place, meta(state)])) },
      [batchSize],
    ),
  )

interface Turn<O> {
  readonly state: TensorDict<O>
  readonly action: TensorDict<TokenAction>
  readonly next: TensorDict<Stepped<O>>
  /** The key of the reset that the trajectories began with. */
  readonly origin: Key
  /** The elements of the environment that took part. */
  readonly rows: readonly number[]
  readonly turn: number
  /** Milliseconds of the policy's call. */
  readonly generationMs: number
}

/** What the step before left in a state. The first state of an episode has none of it, and it stands in that step's `next`. */
const OUTCOME = ['reward', 'terminated', 'truncated', 'done'] as const satisfies readonly (keyof Outcome)[]

/** One row for each element that took part in a turn. */
export const turnRows = <O extends TokenPrompt>({
  state,
  action,
  next,
  origin,
  rows,
  turn,
  generationMs,
}: Turn<O>): CollectedBatch<O> => {
  const prompt = get(state as TensorDict<TokenPrompt>, 'tokens', 'prompt') // O has what TokenPrompt has
  const response = get(action, 'tokens', 'response')
  const full = joinRows(prompt, response)
  const entries = {
    tokens: { full },
    logProbs: { full: joinRows(filledRows(prompt, 'float32', Number.NaN), get(action, 'logProbs', 'response')) },
    masks: {
      attention: filledRows(full, 'bool', 1),
      assistant: joinRows(filledRows(prompt, 'bool', 0), filledRows(response, 'bool', 1)),
    },
    trajectoryId: data(rows.map((element) => trajectoryId(origin, element))),
    turn: data(rows.map(() => turn)),
    status: data(rows.map(() => 'ok' as const)),
    generationMs: data(rows.map(() => generationMs / rows.length)),
    next: withOwnGroups(exclude(next as TensorDict, REMEMBERED), origin),
  }
  const root = withOwnGroups(merge(exclude(state as TensorDict, REMEMBERED, ...OUTCOME), action as TensorDict), origin)
  return assign(root, entries) as unknown as CollectedBatch<O> // state, action and entries, by the definition of CollectedBatch
}

export const isDone = (next: TensorDict): readonly boolean[] =>
  Array.from(get(next as TensorDict<Outcome>, 'done').dataSync(), (done) => done === 1) // every env adds an Outcome

/** All turns in one TensorDict, trajectory by trajectory, in the order of their first turns. */
export const joinTurns = <O>(turns: readonly CollectedBatch<O>[]): CollectedBatch<O> => {
  const first = turns[0]!
  if (turns.length === 1) return first
  const joined = concat(turns as readonly TensorDict[]) as unknown as CollectedBatch<O> // the same entries
  return take(joined, [...rowsByTrajectory(joined).values()].flat())
}

/**
 * Plays episodes with a policy and gives out their turns, batch by batch.
 *
 * A batch is one reset of the environment, played until every episode is done; elements that are done take no further part. Rows are
 * ordered by trajectory and turn. Batch `n` draws from `child(key, n)`, so that batches do not depend on when or how often others were
 * collected.
 *
 * `for await (const batch of collector)` never ends by itself; a batch stays alive until the next one is asked for (`own` keeps it longer).
 *
 * Errors   `collect` gives `Left(CollectorFailure)`; the iterator throws FailureError.
 * Source   TorchRL `LLMCollector` with completed trajectories.
 */
export const LLMCollector = <O extends TokenPrompt>(options: LLMCollectorOptions<O>): LLMCollector<O> => {
  const { env, policy, key, maxTurns = 64, clock = liveClock } = options
  const start = options.start ?? { batch: 0, remembered: {} }

  /** Plays one batch to its end. `hold` keeps what is needed later alive. */
  const play = async (
    position: CollectorPosition,
    hold: <T>(value: T) => T,
  ): Promise<E.Either<CollectorFailure, readonly [CollectedBatch<O>, CollectorPosition]>> => {
    const batchKey = child(key, position.batch)
    const origin = child(batchKey, 'reset')
    const reset = await env.reset(requestOf(position.remembered, env.batchSize), origin)()
    if (isLeft(reset)) return reset
    let state = hold(reset.right)
    let rows: readonly number[] = Array.from({ length: env.batchSize }, (_, i) => i)
    const turns: CollectedBatch<O>[] = []
    for (let turn = 0; turn < maxTurns; turn++) {
      const started = clock.now()
      const action = await policy.act(state, child(batchKey, turn))()
      if (isLeft(action)) return action
      hold(action.right)
      const generationMs = clock.now() - started
      const next = await env.step(state, action.right)()
      if (isLeft(next)) return next
      hold(next.right)
      turns.push(turnRows({ state, action: action.right, next: next.right, origin, rows, turn, generationMs }))
      const open = isDone(next.right).flatMap((done, i) => (done ? [] : [i]))
      if (open.length === 0) {
        const after = { batch: position.batch + 1, remembered: rememberedOf(next.right) }
        return { _tag: 'Right', right: [hold(scope(() => joinTurns(turns))), after] }
      }
      state = hold(take(next.right as unknown as TensorDict<O>, open)) // a stepped state is a state
      rows = open.map((i) => rows[i]!)
    }
    const reason = `an episode did not end within ${maxTurns} turns`
    return { _tag: 'Left', left: { _tag: 'EndlessEpisode', maxTurns, reason } }
  }

  const collect: LLMCollector<O>['collect'] = (position) => async () => {
    const held: Owned<unknown>[] = []
    const hold = <T>(value: T): T => {
      held.push(own(value))
      return value
    }
    try {
      const result = await play(position, hold)
      if (isLeft(result)) return result
      const [batch, after] = result.right
      return { _tag: 'Right', right: { batch: own(batch), position: after } }
    } finally {
      for (const owned of held) owned.release()
    }
  }

  return {
    start,
    collect,
    async *[Symbol.asyncIterator]() {
      let position = start
      while (true) {
        const collected = orThrow(await collect(position)())
        using batch = collected.batch
        position = collected.position
        yield batch.value
      }
    },
  }
}

/** Sum of the rewards of each trajectory, and its rows, in order of first appearance. `rewards` may be others than the batch's own, one for each row. */
export const trajectoryReturns = <O>(
  batch: CollectedBatch<O>,
  rewards?: ArrayLike<number>,
): readonly { readonly trajectoryId: string; readonly rows: readonly number[]; readonly return: number }[] => {
  const plain = batch as unknown as TensorDict<TurnEntries & { readonly next: TensorDict<Outcome> }> // every batch has these
  const each = rewards ?? get(plain, 'next', 'reward').dataSync()
  return [...rowsByTrajectory(batch)].map(([trajectoryId, rows]) => ({
    trajectoryId,
    rows,
    return: rows.reduce((sum, row) => sum + each[row]!, 0),
  }))
}
