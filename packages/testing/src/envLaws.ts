/** Laws for environments. */
import { child, type Key } from '@tandem-rl/base'
import { discard, liveTensors, scope, tensorsOf } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { isLeft, isRight } from 'fp-ts/lib/Either.js'
import { endedRows, outcomeSpec } from 'tandem-rl/envs'
import { decodeTensorDict, encodeTensorDict } from 'tandem-rl/files'
import { equals, format, refine, type Spec, type TensorDict, take } from 'tandem-rl/tensordict'
import { anyKey } from './arbitraries.js'
import { type Law, require } from './law.js'
import { type EnvSample, opened, type PlayedEpisode, play, playedValues, requireSame, stepped } from './playing.js'
import { listed, tensorDictProblems } from './sameTensorDict.js'
import { shown } from './shown.js'

export type { EnvSample } from './playing.js'

const conforms = (td: TensorDict, spec: Spec, what: string): void => {
  const result = refine(spec, td, what)
  if (isLeft(result)) throw new Error(`${what} does not match its spec: ${result.left.problems.join('; ')}`)
}

/** Plays an episode, checks it and frees it. Throws if tensors are left. */
const checked = async <O, A>(
  sample: EnvSample<O, A>,
  key: Key,
  check: (played: PlayedEpisode) => void | Promise<void>,
): Promise<void> => {
  const before = liveTensors().count
  const played = await play(sample, { reset: key, act: key })
  await check(played)
  discard(played.states)
  const left = liveTensors().count - before
  require(left === 0, () => `${left} tensors leaked after all states were freed`)
}

const readable = <O, A>(sample: EnvSample<O, A>): EnvSample<O, A> =>
  shown(sample, () => `${sample.steps} steps in ${sample.env.name}`)

/** Compares two alternating continuations of the first state with each of them alone. */
const requireFork = async <O, A>(
  sample: EnvSample<O, A>,
  key: Key,
  { states, values }: PlayedEpisode,
): Promise<void> => {
  const other = child(key, 'the other way')
  const alone = await play(sample, { reset: key, act: other })
  let [left, right]: readonly [PlayedEpisode, PlayedEpisode] = [
    { states: states.slice(0, 1), values: values.slice(0, 1) },
    { states: states.slice(0, 1), values: values.slice(0, 1) },
  ]
  for (let i = 0; i < sample.steps; i++) {
    left = await stepped(sample, left, key)
    right = await stepped(sample, right, other)
  }
  requireSame({ states, values }, left, 'when the first state is also continued differently')
  requireSame(alone, right, 'when the first state is also continued differently')
  discard([left.states, right.states, alone.states], states)
}

/** Compares two conversations, with steps scheduled in any order, with each of them alone. */
const requireConcurrent = async <O, A>(
  sample: EnvSample<O, A>,
  keys: readonly [Key, Key],
  scheduler: fc.Scheduler,
): Promise<void> => {
  const together = await scheduler.waitFor(
    Promise.all(
      keys.map(async (key) => {
        await scheduler.schedule(Promise.resolve('reset'))
        let played = await opened(sample, key)
        for (let i = 0; i < sample.steps; i++) {
          await scheduler.schedule(Promise.resolve(`step ${i}`))
          played = await stepped(sample, played, key)
        }
        return played
      }),
    ),
  )
  for (const [i, key] of keys.entries()) {
    const alone = await play(sample, { reset: key, act: key })
    requireSame(alone, together[i]!, 'with another conversation at the same time')
    discard(alone.states)
  }
  discard(together.map(({ states }) => states))
}

/** Stores and restores each state, and compares it and its next step. */
const requireStorage = async <O, A>(
  { env, act }: EnvSample<O, A>,
  key: Key,
  { states }: PlayedEpisode,
): Promise<void> => {
  for (const [i, state] of states.entries()) {
    const read = decodeTensorDict(encodeTensorDict(state)) // throws for values that are not JSON
    if (isLeft(read)) throw new Error(`state ${i} cannot be restored: ${read.left.reason}`)
    const problems = tensorDictProblems(read.right, state)
    require(problems.length === 0, () => `state ${i} changes when it is restored:\n${listed(problems)}`)
    if (states[i + 1] === undefined) return discard(read.right)
    const again = read.right as TensorDict<O> // equal to a state
    const action = act(again, key)
    const next = await env.step(again, action)()
    if (isLeft(next)) throw new Error(`a step from the restored state ${i} failed: ${next.left.reason}`)
    const changes = tensorDictProblems(next.right, states[i + 1]!)
    require(changes.length === 0, () => `a step from the restored state ${i} differs:\n${listed(changes)}`)
    discard([read.right, action, next.right], states)
  }
}

/** Returns rows of a state as a separate batch with its own tensors. */
const rowsOf = <S>(td: TensorDict<S>, rows: readonly number[]): TensorDict<S> => scope(() => take(td, rows))

/** Returns `true` for entries with rewards: the reward, its parts, penalties and episode sums. */
const isPay = (name: string): boolean => /^(?:reward|episode)(?:$|[A-Z])|Penalty$/.test(name)

const pays = (td: TensorDict): ReadonlyMap<string, ArrayLike<number>> =>
  new Map(
    [...td.entries].flatMap(([name, entry]) =>
      isPay(name) && entry instanceof tf.Tensor && entry.rank === 1 ? [[name, entry.dataSync()] as const] : [],
    ),
  )

/** Requires that a further step of ended episodes gives no reward and keeps their end flags. */
const requireUnpaid = (before: TensorDict, after: TensorDict): void => {
  const done = endedRows(before, 'done')
  const [had, has] = [pays(before), pays(after)]
  for (const [name, values] of has)
    for (const [i, ended] of done.entries()) {
      const isStill = values[i] === 0 || (name !== 'reward' && values[i] === had.get(name)?.[i])
      require(!ended || isStill, () => `an episode that had ended got ${name} ${values[i]}`)
    }
  for (const flag of ['terminated', 'truncated'] as const) {
    const [was, is] = [endedRows(before, flag), endedRows(after, flag)]
    require(done.every((ended, i) => !ended || was[i] === is[i]), () => `${flag} changed after the end of an episode`)
  }
}

/** Takes a further step from every state with an ended episode. */
const requirePay = async <O, A>({ env, act }: EnvSample<O, A>, key: Key, { states }: PlayedEpisode): Promise<void> => {
  for (const last of states) {
    if (!endedRows(last, 'done').includes(true)) continue
    const state = last as TensorDict<O> // a stepped state is a state
    const action = act(state, key)
    const next = await env.step(state, action)()
    if (isRight(next)) requireUnpaid(last, next.right)
    discard([action, isRight(next) ? next.right : []], states)
  }
}

/** Takes a step with the ended episodes, and one without them. */
const requireEnds = async <O, A>({ env, act }: EnvSample<O, A>, key: Key, { states }: PlayedEpisode): Promise<void> => {
  for (const last of states) {
    const done = endedRows(last, 'done')
    if (!done.includes(true)) continue
    const open = done.flatMap((ended, i) => (ended ? [] : [i]))
    const state = last as TensorDict<O> // a stepped state is a state
    const action = act(state, key)
    const next = await env.step(state, action)()
    if (isRight(next)) {
      const after = endedRows(next.right, 'done')
      require(done.every((ended, i) => !ended || after[i] === true), () => 'a step opens an episode that had ended')
    }
    if (open.length > 0) {
      if (isLeft(next)) throw new Error(`step failed where one of several episodes had ended: ${next.left.reason}`)
      const [few, acts, expected] = [rowsOf(state, open), rowsOf(action, open), rowsOf(next.right, open)]
      const alone = await env.step(few, acts)()
      if (isLeft(alone)) throw new Error(`step failed without the episodes that had ended: ${alone.left.reason}`)
      const problems = tensorDictProblems(alone.right, expected as TensorDict)
      require(problems.length === 0, () =>
        `without the episodes that had ended, the others differ:\n${listed(problems)}`)
      discard([alone.right, few, acts, expected], [states, action, next.right])
    }
    discard([action, isRight(next) ? next.right : []], states)
  }
}

/**
 * Returns the laws of an environment: replay from the key; states match the specs; steps do not
 * change the previous state; done = terminated or truncated; forks of a state; concurrent
 * conversations; storable states; ended episodes stay ended and earn nothing more; no leaked
 * tensors.
 *
 * @example
 * envLaws(fc.constant({ env: ChatEnv({ batchSize: 1 }), act: (state) => state, steps: 0 })).length // 9
 */
export const envLaws = <O, A>(samples: fc.Arbitrary<EnvSample<O, A>>, numRuns = 5): readonly Law[] => {
  const readableSamples = samples.map(readable)
  const law = (
    name: string,
    check: (sample: EnvSample<O, A>, key: Key, played: PlayedEpisode) => void | Promise<void>,
  ): Law => ({
    name,
    check: () =>
      fc.assert(
        fc.asyncProperty(readableSamples, anyKey, (sample, key) =>
          checked(sample, key, (played) => check(sample, key, played)),
        ),
        { numRuns },
      ),
  })
  return [
    law('replay: equal keys and actions give equal states', async (sample, key, played) => {
      const again = await play(sample, { reset: key, act: key })
      requireSame(played, again, 'the second time')
      discard(again.states)
    }),
    law('spec soundness: every state matches the specs', (sample, _key, { states }) => {
      const { observation } = sample.env.specs
      conforms(states[0]!, observation, 'the state after reset')
      for (const state of states.slice(1))
        for (const spec of [observation, outcomeSpec]) conforms(state, spec, 'the state after step')
    }),
    law('purity: a step does not change the previous state', async (sample, key, { states, values }) => {
      for (const [i, state] of states.entries())
        require(!tensorsOf(state).some((x) => x.isDisposed) && playedValues(state) === values[i], () =>
          `state ${i} was changed or freed by a later step`)
      if (states.length < 2) return
      const [before] = states
      const action = sample.act(before as TensorDict<O>, key)
      const copy = format(before!)
      const next = await sample.env.step(before as TensorDict<O>, action)()
      require(format(before!) === copy, () => 'the state was changed or freed')
      if (!isLeft(next)) {
        require(equals(next.right, states[1]!), () => 'a second step from the same state gave another result')
        discard(next.right, states)
      }
      discard(action, states)
    }),
    law('outcome: done equals terminated or truncated', (_sample, _key, { states }) => {
      for (const state of states.slice(1)) {
        const [terminated, truncated] = [endedRows(state, 'terminated'), endedRows(state, 'truncated')]
        const isSound = endedRows(state, 'done').every(
          (d, i) => d === (terminated[i] === true || truncated[i] === true),
        )
        require(isSound, () => 'done is not terminated or truncated')
      }
    }),
    law('fork: two continuations of one state do not affect each other', requireFork),
    {
      name: 'concurrency: concurrent conversations do not affect each other',
      check: () =>
        fc.assert(
          fc.asyncProperty(readableSamples, anyKey, fc.scheduler(), async (sample, key, scheduler) => {
            const before = liveTensors().count
            await requireConcurrent(sample, [key, child(key, 'another conversation')], scheduler)
            const left = liveTensors().count - before
            require(left === 0, () => `${left} tensors leaked after all states were freed`)
          }),
          { numRuns },
        ),
    },
    law('storage: a stored and restored state continues in the same way', requireStorage),
    law('ends: ended episodes stay ended, and the others continue without them', requireEnds),
    law('pay: ended episodes get no further reward and keep their end flags', requirePay),
  ]
}
