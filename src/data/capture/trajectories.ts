/** From the calls of a session to trajectories: one row of tokens for each conversation, ready for a loss. */
import { type CallForest, type LinkedCall, linkCalls } from './linking.js'
import type { CapturedCall, CapturedSampling, CapturedSession, CompletionStatus } from './session.js'
import { type ChainSplit, chainSplits } from './splits.js'

/** A completion that a trajectory learns from. */
export interface TrajectoryTurn {
  readonly call: number
  readonly completion: number
  /** Its tokens are `start .. end - 1` of the trajectory. */
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
  /** 1 where the policy sampled the token and this trajectory learns it; 0 for everything else. */
  readonly mask: Uint8Array
  /** Nats, of logits / temperature; NaN where the mask is 0. */
  readonly logProbs: Float32Array
  /** Version of the weights that sampled the token; -1 where the mask is 0. */
  readonly versions: Int32Array
  /** At least one, in order. */
  readonly turns: readonly TrajectoryTurn[]
  /** Tokens that the policy sampled and another trajectory learns: where this one branched off. Half-open ranges. */
  readonly shared: readonly { readonly start: number; readonly end: number }[]
  readonly status: 'ok' | 'failed'
  /** Why it is not `ok`. */
  readonly reason: string | null
}

/** A completion that no trajectory has. */
interface UnusedCompletion {
  readonly call: number
  readonly completion: number
  readonly status: Exclude<CompletionStatus, 'ok'>
  readonly reason: string
}

/** Everything that came of a session. */
export interface SessionTrajectories {
  readonly trajectories: readonly CapturedTrajectory[]
  readonly splits: readonly ChainSplit[]
  readonly unused: readonly UnusedCompletion[]
}

export interface TrajectoryOptions {
  /**
   * Tokens that several conversations have in common, as where an agent tries two ways from one point. `once`: the first conversation learns
   * them, for the others they are context. `each`: all learn them. Default `once`.
   */
  readonly shared?: 'once' | 'each'
  /** Writes the texts of splits. */
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

/** From the first node of a conversation to `node`. */
const lineTo = (node: LinkedCall): readonly LinkedCall[] => {
  const line: LinkedCall[] = []
  for (let at: LinkedCall | null = node; at !== null; at = at.parent) line.push(at)
  return line.reverse()
}

/** A conversation: its nodes from the first to the last, and how many of them are context. */
interface Line {
  readonly nodes: readonly LinkedCall[]
  readonly context: number
}

/** Every leaf is the end of a conversation. With `once` each node is learned in the conversation that its first children lead to. */
const linesOf = (forest: CallForest, children: Children, shared: 'once' | 'each'): readonly Line[] =>
  forest.nodes
    .filter((node) => !children.has(node))
    .map((leaf) => {
      const nodes = lineTo(leaf)
      if (shared === 'each') return { nodes, context: 0 }
      const branch = nodes.findLastIndex(({ parent }, i) => children.get(parent)![0] !== nodes[i] && parent !== null)
      return { nodes, context: Math.max(branch, 0) }
    })

/** Why the last node of a conversation is no end of its own: what should have followed failed. */
const cutShort = (leaf: LinkedCall, calls: readonly CapturedCall[], { parents }: CallForest): string | null => {
  const failed = calls.find((call) => parents.get(call.index) === leaf && isLost(call))
  return failed === undefined ? null : `call ${failed.index}, which goes on from it, ${lossOf(failed)}`
}

/** Whether nothing of a call can be used. */
const isLost = ({ completions }: CapturedCall): boolean => completions.every(({ status }) => status !== 'ok')

const lossOf = ({ completions: [first] }: CapturedCall): string =>
  first === undefined ? 'has no completion' : `is ${first.status}: ${first.reason}`

/** Why nothing of a session can be learned from, whatever its conversations look like. */
const sessionLoss = ({ calls, end }: CapturedSession): string | null => {
  if (end?.status === 'failed') return `the session failed: ${end.reason ?? 'no reason was told'}`
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
    ...{ session, ids, mask, logProbs, versions, reason },
    turns: learned.map(turnOf),
    shared: nodes.slice(0, context).map(({ call, full }) => ({ start: call.prompt.length, end: full.length })),
    status: reason === null ? 'ok' : 'failed',
  }
}

/**
 * The conversations of a session, each as one row of tokens.
 *
 * A call whose prompt begins with all tokens of an earlier call and its answer goes on from it; what goes on from nothing begins a
 * conversation, and where several go on from one answer, each is a conversation. The mask is 1 on sampled tokens only: prompts, results of
 * tools and what templates write have 0. Completions that failed, were aborted or lack log-probabilities are in none (`unused`), and a
 * conversation that such a call cut short has the status `failed`, as has every conversation of a session whose last call brought nothing.
 *
 * Laws     the order of `session.calls` does not matter; with `once` every token of a completion that is `ok` has mask 1 in exactly one
 *          trajectory, and no other token has.
 * Cost     linear in tokens, apart from looking for splits.
 */
export const sessionTrajectories = (session: CapturedSession, options: TrajectoryOptions = {}): SessionTrajectories => {
  const { shared = 'once', decode } = options
  const calls = session.calls.toSorted((a, b) => a.index - b.index)
  const forest = linkCalls(calls)
  const lost = sessionLoss(session)
  return {
    trajectories: linesOf(forest, childrenOf(forest), shared).map((line) =>
      trajectoryOf(session.id, line, lost ?? cutShort(line.nodes.at(-1)!, calls, forest)),
    ),
    splits: chainSplits(forest, calls, decode),
    unused: calls.flatMap((call) =>
      call.completions.flatMap(({ status, reason }, completion): readonly UnusedCompletion[] =>
        status === 'ok' ? [] : [{ call: call.index, completion, status, reason: reason ?? status }],
      ),
    ),
  }
}
