/** Forks of a rollout: other continuations from one of its tokens. */
import { child, FailureError, keyFromSeed, orThrow } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { LLMCollector, type Policy, type PolicyFailure, type TokenAction, type TokenPrompt } from 'tandem-rl'
import { enginePolicy, generateAll, type LocalLLMEngine } from 'tandem-rl/generation'
import { localClient } from 'tandem-rl/remote'
import { type RunGroups, trajectoryRecordsOf } from 'tandem-rl/run'
import { data, get, ragged, raggedRows, TensorDict } from 'tandem-rl/tensordict'
import { conversationOf } from './conversation.js'
import type { ModelWork } from './modelDesk.js'
import type { ForkLine, ForkModeLine, ForkRequest, ProgressLine } from './modelProtocol.js'
import { type FoundToken, findToken, reportedSampling, type TurnIds, tokenRow } from './modelTokens.js'
import type { OpenModel } from './openModel.js'
import { heldRollouts } from './rolloutLog.js'

/** The fork of a rollout, and the ids with which the forked turn starts. */
interface Fork {
  readonly body: ForkRequest
  readonly found: FoundToken
  readonly start: TurnIds
  readonly model: OpenModel
  readonly engine: LocalLLMEngine
  readonly signal: AbortSignal
}

/** Returns the start of the forked turn. Ids of the replacement get the log-probability 0. */
const startOf = ({ replacement }: ForkRequest, { turns, turn, token }: FoundToken, { text }: OpenModel): TurnIds => {
  const { prompt, ids, logProbs } = turns[turn]! // found in the log
  const replaced = replacement === '' ? [] : Array.from(text.tokenizer.encode(replacement))
  const kept = ids.slice(0, token)
  return {
    prompt,
    ids: [...kept, ...replaced],
    logProbs: [...kept.map((_, i) => logProbs[i] ?? 0), ...replaced.map(() => 0)],
  }
}

/** Makes the action that repeats a recorded turn in every row. */
const recordedAction = ({ ids, logProbs }: TurnIds, count: number, body: ForkRequest): TensorDict<TokenAction> => {
  const all = <T>(value: T): readonly T[] => Array.from({ length: count }, () => value)
  const { temperature, maxNewTokens } = body
  return TensorDict(
    {
      tokens: { response: ragged('int32', all(ids)) },
      logProbs: { response: ragged('float32', all(logProbs)) },
      stopReason: data(all('stop' as const)),
      policyVersion: data(all(body.checkpoint)),
      sampling: data(all({ temperature, maxNewTokens, topK: null, topP: null, minNewTokens: 0 })),
    },
    [count],
  )
}

/** Appends ids to the prompts, for a policy that continues from there. */
const withPrompt = (td: TensorDict<TokenPrompt>, start: TurnIds): TensorDict<TokenPrompt> =>
  TensorDict(
    {
      tokens: {
        prompt: ragged(
          'int32',
          raggedRows(get(td, 'tokens', 'prompt')).map((row) => [...row, ...start.ids]),
        ),
        spans: get(td, 'tokens', 'spans'),
      },
    },
    td.batchShape,
  )

/** Puts ids before the sampled ones. The version of the weights is the checkpoint. */
const withStart = (
  action: TensorDict<TokenAction>,
  { ids, logProbs }: Pick<TurnIds, 'ids' | 'logProbs'>,
  checkpoint: number,
): TensorDict<TokenAction> => {
  const after = (start: readonly number[], rows: readonly (readonly number[])[]): readonly (readonly number[])[] =>
    rows.map((row) => [...start, ...row])
  return TensorDict(
    {
      tokens: { response: ragged('int32', after(ids, raggedRows(get(action, 'tokens', 'response')))) },
      logProbs: { response: ragged('float32', after(logProbs, raggedRows(get(action, 'logProbs', 'response')))) },
      stopReason: get(action, 'stopReason'),
      policyVersion: data(get(action, 'policyVersion').items.map(() => checkpoint)),
      sampling: get(action, 'sampling'),
    },
    action.batchShape,
  )
}

/** The environment does not repeat the recorded turns. */
const OTHER_WAY = 'the environment does not repeat the recorded turns'

const isSame = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((id, i) => id === b[i])

/** Repeats the recorded turns before the fork, starts the forked one, and leaves the rest free. */
const forkedPolicy = (
  policy: Policy<TokenPrompt, TokenAction>,
  { found: { turns, turn: forked }, start, body }: Fork,
): Policy<TokenPrompt, TokenAction> => {
  let turn = -1
  return {
    name: 'fork',
    act: (td, key, options) => {
      turn++
      const recorded = turn === forked ? start : turns[turn]
      const free = (from: TensorDict<TokenPrompt>, begun: Pick<TurnIds, 'ids' | 'logProbs'>) =>
        pipe(
          policy.act(from, key, options),
          TE.map((action) => withStart(action, begun, body.checkpoint)),
        )
      if (turn > forked || recorded === undefined) return free(td, { ids: [], logProbs: [] })
      const prompts = raggedRows(get(td, 'tokens', 'prompt'))
      if (!prompts.every((prompt) => isSame(prompt, recorded.prompt))) {
        const failure: PolicyFailure = { _tag: 'PolicyFailure', policy: 'fork', reason: OTHER_WAY }
        return TE.left(failure)
      }
      if (turn < forked) return TE.right(recordedAction(recorded, prompts.length, body))
      return free(withPrompt(td, recorded), recorded)
    },
  }
}

/**
 * Returns the index of the rollout's task from the ids that collectors write, or `null`: the group
 * id is the key of the reset, the index and the id of the task.
 */
const taskOf = ({ found: { records } }: Fork): number | null => {
  const { groupId, trajectoryId } = records[0]! // a rollout has a turn
  const origin = trajectoryId.slice(0, trajectoryId.lastIndexOf(':') + 1)
  if (groupId === null || origin === '' || !groupId.startsWith(origin)) return null
  const found = /^(\d{1,15}):/.exec(groupId.slice(origin.length))
  return found === null ? null : Number(found[1])
}

/** Plays the fork in the environment of its task. */
async function* playedForks(fork: Fork, groups: RunGroups, task: number): AsyncGenerator<ForkLine> {
  const { body, model, engine, signal } = fork
  const policy = enginePolicy({
    engine: localClient(engine, 'the checkpoint'),
    sampling: { temperature: body.temperature, maxTokens: body.maxNewTokens },
  })
  for (let done = 0; done < body.count && !signal.aborted; done += groups.size) {
    const key = child(keyFromSeed(body.seed), done)
    const collector = LLMCollector({ env: groups.env(task), policy: forkedPolicy(policy, fork), key })
    using collected = orThrow(await collector.collect(collector.start)()).batch
    const batch = collected.value as unknown as TensorDict // read by names
    const log = heldRollouts(trajectoryRecordsOf(model.run(), { step: 0, batch, rated: batch }))
    const rollouts = (await log.rollouts()).slice(0, body.count - done)
    const turns = await log.turns(rollouts)
    for (const [i, { row }] of rollouts.entries())
      yield {
        type: 'completion',
        index: done + i,
        turns: conversationOf(turns[i]!).slice(body.turn),
        reward: row.reward,
        parts: row.parts,
        stopReason: turns[i]!.at(-1)?.stopReason ?? null,
      }
  }
}

/** Samples the rest of the forked turn, without an environment. */
async function* sampledForks({ body, start, model, engine, signal }: Fork): AsyncGenerator<ForkLine> {
  const { count, temperature, maxNewTokens, seed } = body
  const prompt = Int32Array.from([...start.prompt, ...start.ids])
  const sampling = reportedSampling({ n: count, temperature, maxTokens: maxNewTokens, key: keyFromSeed(seed) })
  const request = { id: 'fork', prompt, sampling, adapter: null, cacheSalt: '' }
  const [generated] = await generateAll(engine, [request], { signal })
  const { completions } = orThrow(generated!) // one result per request
  for (const [index, { tokens, finishReason }] of completions.entries()) {
    const rows = [
      ...start.ids.map((id) => ({ id, text: model.text.tokenizer.decode([id], 'keep') })),
      ...tokens.map((token) => tokenRow(model.text, token)),
    ]
    const text = rows.map((row) => row.text).join('')
    yield {
      type: 'completion',
      index,
      turns: [{ author: 'model', text, toolCalls: [], tokens: rows }],
      reward: null,
      parts: {},
      stopReason: finishReason,
    }
  }
}

const NO_GROUPS = 'the recipe does not make the environment of one task'
const NO_TASK = 'the log does not tell the task of the rollout'

/** Plays the fork. Returns the reason if the environment cannot repeat the rollout, else `null`. */
async function* environmentForks(
  fork: Fork,
  groups: RunGroups,
  task: number,
): AsyncGenerator<ForkModeLine | ForkLine, string | null> {
  try {
    let count = 0
    for await (const line of playedForks(fork, groups, task)) {
      if (count === 0) yield { type: 'mode', mode: 'environment', reason: null }
      count++
      yield line
    }
    return null
  } catch (error) {
    if (error instanceof FailureError && error.message.includes(OTHER_WAY)) return OTHER_WAY
    throw error
  }
}

/** Yields completions from a token on: in the recipe's environment if it can, else as text. */
export const forkLines = (body: ForkRequest) =>
  async function* ({ run, open, signal }: ModelWork): AsyncGenerator<ProgressLine | ForkModeLine | ForkLine> {
    yield { type: 'progress', message: 'opening the run' }
    const model = await open()
    const found = await findToken(run, body)
    const engine = await model.engineAt(body.checkpoint)
    const fork: Fork = { body, found, start: startOf(body, found, model), model, engine, signal }
    const { groups } = model.run()
    const task = taskOf(fork)
    const reason = groups === null ? NO_GROUPS : task === null ? NO_TASK : yield* environmentForks(fork, groups, task)
    if (reason === null) return
    yield { type: 'mode', mode: 'text', reason }
    yield* sampledForks(fork)
  }
