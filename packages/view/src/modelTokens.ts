/** Token ids for requests about models: of rollouts, and of conversations. */
import { orThrow } from '@tandem-rl/base'
import { encodeRendered, History, message, render } from '@tandem-rl/text'
import type { ModelText } from 'tandem-rl'
import {
  DEFAULT_SAMPLING,
  type GeneratedToken,
  generateAll,
  type LocalLLMEngine,
  type PromptTokenLogProb,
  type SamplingParams,
  type TokenLogProb,
} from 'tandem-rl/generation'
import type { TrajectoryRecord } from 'tandem-rl/run'
import { conversationOf } from './conversation.js'
import type { ModelToken, TokenPlace, TopToken } from './modelProtocol.js'
import type { ViewedRun } from './viewedRun.js'

/** A turn of the model with its token ids. */
export interface TurnIds {
  readonly prompt: readonly number[]
  readonly ids: readonly number[]
  readonly logProbs: readonly number[]
}

/** Returns the token ids of all turns. Throws RangeError for a log without them. */
const turnIds = (turns: readonly TrajectoryRecord[]): readonly TurnIds[] => {
  let before: readonly number[] = []
  return turns.map(({ ids, prompt, logProbs }) => {
    if (ids === undefined || prompt === undefined)
      throw new RangeError('the log has no token ids: it was written by an older version, or by a run without tokens')
    const whole = [...before.slice(0, prompt.shared), ...prompt.ids]
    before = [...whole, ...ids]
    return { prompt: whole, ids, logProbs: logProbs ?? [] }
  })
}

/** A token of a recorded rollout, with the ids of all turns. */
export interface FoundToken {
  readonly records: readonly TrajectoryRecord[]
  readonly turns: readonly TurnIds[]
  /** The model's turn, counted from 0, and the token in it. */
  readonly turn: number
  readonly token: number
}

/** Finds a token in the log. Throws RangeError if there is no such rollout, turn or token. */
export const findToken = async (run: ViewedRun, { rollout: id, turn, token }: TokenPlace): Promise<FoundToken> => {
  const rollout = (await run.rollouts()).find(({ row }) => row.id === id)
  if (rollout === undefined) throw new RangeError(`no rollout '${id}'`)
  const [records = []] = await run.turns([rollout])
  const shown = conversationOf(records)
  if (shown[turn]?.tokens === undefined) throw new RangeError(`turn ${turn} of the rollout has no tokens of the model`)
  const own = shown.slice(0, turn).filter(({ tokens }) => tokens !== undefined).length
  const turns = turnIds(records)
  const { ids } = turns[own]! // a turn with tokens has a record
  if (ids[token] === undefined) throw new RangeError(`the turn has ${ids.length} tokens: there is no token ${token}`)
  return { records, turns, turn: own, token }
}

/** A message of a conversation. */
interface ChatMessage {
  readonly role: string
  readonly content: string
}

/** Encodes a conversation and the start of the model's turn. Throws what the template throws. */
export const promptIds = (text: ModelText, messages: readonly ChatMessage[]): Int32Array => {
  const history = History(messages.map(({ role, content }) => message(role, content)))
  return encodeRendered(text.tokenizer, orThrow(render(text.template, history, { generationPrompt: 'add' }))).ids
}

/** Makes a row of a token with its probability and the alternatives. */
export const tokenRow = (
  { tokenizer }: Pick<ModelText, 'tokenizer'>,
  { id, temperedLogProb, top }: Pick<GeneratedToken, 'id' | 'temperedLogProb' | 'top'>,
): ModelToken => ({
  id,
  text: tokenizer.decode([id], 'keep'),
  logProb: temperedLogProb,
  top: topTokens({ tokenizer }, top),
})

/** Returns the texts and log-probabilities of tokens. */
export const topTokens = (
  { tokenizer }: Pick<ModelText, 'tokenizer'>,
  tokens: readonly Pick<TokenLogProb, 'id' | 'logProb'>[],
): readonly TopToken[] => tokens.map(({ id, logProb }) => ({ text: tokenizer.decode([id], 'keep'), logProb }))

/** Alternatives that are reported beside a token. */
const ALTERNATIVES = 8

/** Sampling of a request, with the alternatives of each token. */
export const reportedSampling = (given: Partial<SamplingParams>): SamplingParams => ({
  ...DEFAULT_SAMPLING,
  topLogProbs: ALTERNATIVES,
  logProbsMode: 'tempered',
  ...given,
})

/** Computes the log-probabilities of the tokens of a sequence after its first `from`. */
export const scoredTokens = async (
  engine: LocalLLMEngine,
  sequence: readonly number[],
  { from, temperature, signal }: { readonly from: number; readonly temperature: number; readonly signal: AbortSignal },
): Promise<readonly PromptTokenLogProb[]> => {
  const request = {
    id: 'score',
    prompt: Int32Array.from(sequence),
    adapter: null,
    cacheSalt: '',
    sampling: reportedSampling({ maxTokens: 1, topLogProbs: null, promptLogProbs: ALTERNATIVES, temperature }),
  }
  const [generated] = await generateAll(engine, [request], { signal })
  const { promptLogProbs } = orThrow(generated!) // one result per request
  return (promptLogProbs ?? []).slice(from).flatMap((each) => each ?? [])
}
