/** The chains that an agent has played. */
import type { Failure } from '@tandem-rl/base'
import type { Message } from '@tandem-rl/text'

/**
 * Why a chain ended. `terminal`: a final answer, a finishing tool or the stop rule.
 * `no_tool_calls`: a reply without a call. `max_turns` and `max_model_len`: a limit. `failed`: the
 * backend, a tool or the reward failed, which is unrelated to the policy.
 */
export type ChainFinish = 'terminal' | 'no_tool_calls' | 'max_turns' | 'max_model_len' | 'failed'

/** The ids of a conversation, with the policy's own marked. */
export interface ChainTokens {
  readonly ids: readonly number[]
  /** 1 for each token that the policy sampled. */
  readonly mask: readonly (0 | 1)[]
  /** Log-probabilities in nats; NaN where the mask is 0. */
  readonly logProbs: readonly number[]
}

/** A turn of the policy. */
export interface ChainTurn {
  readonly message: Message
  /** Index of the segment. */
  readonly segment: number
  readonly generationMs: number
  /** The ids that the turn read and wrote; `null` if the backend has none. */
  readonly tokens: {
    readonly prompt: readonly number[]
    readonly response: readonly number[]
    readonly logProbs: readonly number[]
  } | null
}

/** A conversation between two summaries. Without context folding, a chain has one. */
export interface ChainSegment {
  readonly messages: readonly Message[]
  /**
   * The segment as one sequence. `null` without ids, and if a server has rendered the policy's text
   * anew, so that the turns do not continue each other.
   */
  readonly tokens: ChainTokens | null
}

/** A call of a tool. */
export interface ChainCall {
  readonly name: string
  readonly outcome: string
  readonly ms: number
}

/** A conversation of an agent with its environment. */
export interface ChainTrajectory {
  readonly chainId: string
  /** Shared by the chains of one prompt. */
  readonly groupId: string
  readonly chainIdx: number
  readonly groupIdx: number
  /** The whole conversation of the last segment. */
  readonly messages: readonly Message[]
  readonly segments: readonly ChainSegment[]
  readonly turns: readonly ChainTurn[]
  readonly calls: readonly ChainCall[]
  /** `null` if the chain failed. */
  readonly reward: number | null
  /** The parts of the reward by name, and `success` as 0 or 1. */
  readonly rewardExtras: Readonly<Record<string, number>>
  readonly finishReason: ChainFinish
  /** The cause, if the chain failed. */
  readonly failure: Failure | null
  /** Milliseconds of the chain, and of the policy alone. */
  readonly timings: { readonly totalMs: number; readonly generationMs: number }
  /** The row that the chain started from. */
  readonly row: Readonly<Record<string, unknown>>
}

/** The result of `agent.run`. */
export interface AgentRunResult {
  /** In the order of prompts, chain by chain. */
  readonly trajectories: readonly ChainTrajectory[]
  /** One for each trajectory; `null` for those that failed. */
  readonly rewards: readonly (number | null)[]
  readonly rewardExtras: readonly Readonly<Record<string, number>>[]
}

type TurnTokens = NonNullable<ChainTurn['tokens']>

/** The number of leading items that two lists share. The first `from` are known to be equal. */
export const sharedLength = (a: ArrayLike<number>, b: ArrayLike<number>, from: number): number => {
  let length = from
  while (length < a.length && length < b.length && a[length] === b[length]) length++
  return length
}

/** Adds the tokens of a turn to those before. `undefined` if the turn does not continue them. */
const continued = (
  before: ChainTokens,
  turn: TurnTokens,
  isCut: (turn: number) => boolean,
  index: number,
): ChainTokens | undefined => {
  const { prompt, response, logProbs } = turn
  const shared = sharedLength(before.ids, prompt, 0)
  const isWhole = shared === before.ids.length
  if (!isWhole && !isCut(index - 1)) return undefined // a cut reply continues with the kept part
  const added = prompt.slice(shared)
  return {
    ids: [...before.ids.slice(0, shared), ...added, ...response],
    mask: [...before.mask.slice(0, shared), ...added.map(() => 0 as const), ...response.map(() => 1 as const)],
    logProbs: [...before.logProbs.slice(0, shared), ...added.map(() => Number.NaN), ...logProbs],
  }
}

/**
 * Joins turns that continue each other to one sequence. `isCut` returns true for a turn whose reply
 * was cut on purpose, so that its end is missing in the next prompt.
 */
export const joinTurnTokens = (
  turns: readonly (TurnTokens | null)[],
  isCut: (turn: number) => boolean,
): ChainTokens | null => {
  let joined: ChainTokens = { ids: [], mask: [], logProbs: [] }
  for (const [i, turn] of turns.entries()) {
    const next = turn === null ? undefined : continued(joined, turn, isCut, i)
    if (next === undefined) return null
    joined = next
  }
  return turns.length === 0 ? null : joined
}

/** The result of these trajectories. */
export const runResult = (trajectories: readonly ChainTrajectory[]): AgentRunResult => ({
  trajectories,
  rewards: trajectories.map(({ reward }) => reward),
  rewardExtras: trajectories.map(({ rewardExtras }) => rewardExtras),
})
