/** Playing episodes for the laws of environments. */
import type { Key } from '@tandem-rl/base'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { Env } from 'tandem-rl'
import { TensorDict, toNested } from 'tandem-rl/tensordict'
import { require } from './law.js'
import { listed, tensorDictProblems } from './sameTensorDict.js'

/** An environment, and actions for it. */
export interface EnvSample<O, A> {
  readonly env: Env<O, A>
  /** Makes the request of the first reset. Default: a request without entries. */
  readonly request?: () => TensorDict
  /** Returns an action for a state. The caller owns its tensors. */
  readonly act: (state: TensorDict<O>, key: Key) => TensorDict<A>
  /** Number of steps to play. */
  readonly steps: number
}

/** An episode, complete or in progress. */
export interface PlayedEpisode {
  readonly states: readonly TensorDict[]
  /** The values of each state when it was returned. */
  readonly values: readonly string[]
}

/** The random keys of an episode. */
export interface PlayKeys {
  readonly reset: Key
  readonly act: Key
}

export const playedValues = (state: TensorDict): string => JSON.stringify(toNested(state))

/** Resets the environment, and returns an episode with its first state. */
export const opened = async <O, A>({ env, request }: EnvSample<O, A>, key: Key): Promise<PlayedEpisode> => {
  const first = await env.reset(request?.() ?? TensorDict({}, [env.batchSize]), key)()
  if (isLeft(first)) throw new Error(`reset failed: ${first.left.reason}`)
  return { states: [first.right], values: [playedValues(first.right)] }
}

/** Returns the episode with its next state. */
export const stepped = async <O, A>(
  { env, act }: EnvSample<O, A>,
  { states, values }: PlayedEpisode,
  key: Key,
): Promise<PlayedEpisode> => {
  const state = states.at(-1) as unknown as TensorDict<O> // a stepped state is a state
  const action = act(state, key)
  const next = await env.step(state, action)()
  discard(action, states)
  if (isLeft(next)) throw new Error(`step failed: ${next.left.reason}`)
  return { states: [...states, next.right], values: [...values, playedValues(next.right)] }
}

/** Plays all steps. All values made are in the result or freed. */
export const play = async <O, A>(sample: EnvSample<O, A>, keys: PlayKeys): Promise<PlayedEpisode> => {
  let played = await opened(sample, keys.reset)
  for (let i = 0; i < sample.steps; i++) played = await stepped(sample, played, keys.act)
  return played
}

/** Throws with every difference unless two episodes have equal states. */
export const requireSame = (a: PlayedEpisode, b: PlayedEpisode, when: string): void => {
  for (const [i, state] of a.states.entries()) {
    const problems = tensorDictProblems(b.states[i]!, state)
    require(problems.length === 0, () => `state ${i} differs ${when}:\n${listed(problems)}`)
  }
}
