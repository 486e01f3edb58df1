/**
 * Conversion of a session's calls to trajectories: one row of tokens for each conversation, ready
 * for a loss.
 */
import { type CallForest, type LinkedCall, linkCalls } from './linking.js'
import type { CapturedCall, CapturedSampling, CapturedSession, CompletionStatus } from './session.js'
import { type ChainSplit, chainSplits } from './splits.js'

/** A completion in a trajectory that is learned from. */
export interface TrajectoryTurn {
  readonly call: number
  readonly completion: number
  /** The range of its tokens in the trajectory is `start .. end - 1`. */
  readonly start: number
  readonly end: number
  readonly finishReason: 'stop' | 'length'
  readonly stopReason: string | number | null
  readonly sampling: CapturedSampling
}

/** A conversation as one row of tokens. The four lists have one element for each token. */
export interface CapturedTrajectory {
  readonly session: string
  readonly ids: Int32Array
  /**
   * 1 for tokens that the policy sampled and that are learned in this trajectory; 0 for all others.
   */
  readonly mask: Uint8Array
  /** In nats, of logits / temperature; NaN where the mask is 0. */
  readonly logProbs: Float32Array
  /** Version of the weights that sampled the token; -1 where the mask is 0. */
  readonly versions: Int32Array
  /** At least one, in order. */
  readonly turns: readonly TrajectoryTurn[]
  /**
   * Half-open ranges of sampled tokens that are learned in another trajectory, from which this one
   * branched off.
   */
  readonly shared: readonly { readonly start: number; readonly end: number }[]
  readonly status: 'ok' | 'failed'
  /** The reason if the status is not `ok`. */
  readonly reason: string | null
}

/** A completion that is in no trajectory. */
interface UnusedCompletion {
  readonly call: number
  readonly completion: number
  readonly status: Exclude<CompletionStatus, 'ok'>
  readonly reason: string
}

/** The result of converting a session. */
export interface SessionTrajectories {
  readonly trajectories: readonly CapturedTrajectory[]
  readonly splits: readonly ChainSplit[]
  readonly unused: readonly UnusedCompletion[]
}

export interface TrajectoryOptions {
  /**
   * The treatment of tokens that several conversations share, as when an agent tries two ways from
   * one point. `once`: they are learned in the first conversation and are context in the others.
   * `each`: they are learned in all. Default `once`.
   */
  readonly shared?: 'once' | 'each'
  /** Decodes token ids for the texts of splits. */
  readonly decode?: (ids: Int32Array) => string
}

type Children = ReadonlyMap<LinkedCall | null, readonly LinkedCall[]>

const childrenOf = ({ nodes }: CallForest): Children => {
  const children = new Map<LinkedCall | null, LinkedCall[]>()
  for (const node of nodes) {
    const siblings = children.get(node.parent)
    if (siblings === undefined) children.set(node.parent, [node])
    else siblings.push(node)
  }
  return children
}

/** Returns the path from the first node of a conversation to `node`. */
const lineTo = (node: LinkedCall): readonly LinkedCall[] => {
  const line: LinkedCall[] = []
  for (let at: LinkedCall | null = node; at !== null; at = at.parent) line.push(at)
  return line.reverse()
}

/**
 * A conversation: its nodes from first to last, and the number of leading nodes that are context.
 */
interface Line {
  readonly nodes: readonly LinkedCall[]
  readonly context: number
}

/**
 * Returns the conversations, each ending in a leaf. With `once`, a node is learned in the
 * conversation that its first children lead to.
 */
const linesOf = (forest: CallForest, children: Children, shared: 'once' | 'each'): readonly Line[] =>
  forest.nodes
    .filter((node) => !children.has(node))
    .map((leaf) => {
      const nodes = lineTo(leaf)
      if (shared === 'each') return { nodes, context: 0 }
      const branch = nodes.findLastIndex(({ parent }, i) => children.get(parent)![0] !== nodes[i] && parent !== null)
      return { nodes, context: Math.max(branch, 0) }
    })

/** Returns the first call without a usable completion that should have followed each node. */
const lostCalls = (
  calls: readonly CapturedCall[],
  { parents }: CallForest,
): ReadonlyMap<LinkedCall | null | undefined, CapturedCall> =>
  new Map(
    calls
      .filter(isLost)
      .map((call) => [parents.get(call.index), call] as const)
      .toReversed(),
  )

/** Returns the failure of the call that should have followed a conversation, or null. */
const cutShort = (failed: CapturedCall | undefined): string | null =>
  failed === undefined ? null : `call ${failed.index}, which continues it, ${lossOf(failed)}`

/** Returns true if no completion of a call can be used. */
const isLost = ({ completions }: CapturedCall): boolean => completions.every(({ status }) => status !== 'ok')

const lossOf = ({ completions: [first] }: CapturedCall): string =>
  first === undefined ? 'has no completion' : `is ${first.status}: ${first.reason}`

/** Returns the reason why a whole session cannot be used for learning, or null. */
const sessionLoss = ({ calls, end }: CapturedSession): string | null => {
  if (end?.status === 'failed') return `the session failed: ${end.reason ?? 'no reason was given'}`
  const last = calls.toSorted((a, b) => a.index - b.index).at(-1)
  return last !== undefined && isLost(last) ? `the last call of the session ${lossOf(last)}` : null
}

const turnOf = ({ call, completion, sampled, full }: LinkedCall): TrajectoryTurn => ({
  call: call.index,
  completion,
  start: call.prompt.length,
  end: full.length,
  finishReason: sampled.finishReason === 'length' ? 'length' : 'stop',
  stopReason: sampled.stopReason,
  sampling: call.sampling,
})

const trajectoryOf = (session: string, { nodes, context }: Line, reason: string | null): CapturedTrajectory => {
  const ids = nodes.at(-1)!.full
  const mask = new Uint8Array(ids.length)
  const logProbs = new Float32Array(ids.length).fill(Number.NaN)
  const versions = new Int32Array(ids.length).fill(-1)
  const learned = nodes.slice(context)
  for (const { call, sampled, full } of learned) {
    const start = call.prompt.length
    mask.fill(1, start, full.length)
    logProbs.set(sampled.logProbs, start)
    versions.set(sampled.versions, start)
  }
  return {
    session,
    ids,
    mask,
    logProbs,
    versions,
    reason,
    turns: learned.map(turnOf),
    shared: nodes.slice(0, context).map(({ call, full }) => ({ start: call.prompt.length, end: full.length })),
    status: reason === null ? 'ok' : 'failed',
  }
}

/**
 * Converts a session to its conversations, each as one row of tokens.
 *
 * A call whose prompt begins with all tokens of an earlier call and its answer continues that call.
 * A call that continues none begins a conversation, and if several calls continue one answer, each
 * is a conversation. The mask is 1 on sampled tokens only: prompts, tool results and template text
 * have 0. Completions that failed, were aborted or lack log-probabilities are excluded (`unused`).
 * A conversation that such a call cut short has the status `failed`, and so has every conversation
 * of a session whose last call produced nothing.
 *
 * Laws     the order of `session.calls` does not matter; with `once`, every token of an `ok`
 *          completion has mask 1 in exactly one trajectory, and no other token has.
 * Cost     linear in tokens, apart from the search for splits.
 */
export const sessionTrajectories = (session: CapturedSession, options: TrajectoryOptions = {}): SessionTrajectories => {
  const { shared = 'once', decode } = options
  const calls = session.calls.toSorted((a, b) => a.index - b.index)
  const forest = linkCalls(calls)
  const lost = sessionLoss(session)
  const following = lostCalls(calls, forest)
  return {
    trajectories: linesOf(forest, childrenOf(forest), shared).map((line) =>
      trajectoryOf(session.id, line, lost ?? cutShort(following.get(line.nodes.at(-1)!))),
    ),
    splits: chainSplits(forest, calls, decode),
    unused: calls.flatMap((call) =>
      call.completions.flatMap(({ status, reason }, completion): readonly UnusedCompletion[] =>
        status === 'ok' ? [] : [{ call: call.index, completion, status, reason: reason ?? status }],
      ),
    ),
  }
}
