/** The end of a completion, and its text as far as it is certain: a state in, a state and a result out. */
import type { FinishReason, SamplingParams } from '../../../data/generation.js'
import { type DecodeState, decodeEnd, decodeNext } from '../../../text/tokenizer/textTokenizer.js'
import { findStop, openLength, type StopMatcher, stopMatcher } from './stopStrings.js'

/** Why a completion ended. */
export interface Finish {
  readonly finishReason: FinishReason
  /** The stop string or stop token id; null for end tokens and length. */
  readonly stopReason: string | number | null
}

/** What ends completions of a request. */
export interface StopRules {
  readonly sampling: Pick<SamplingParams, 'minTokens' | 'stop' | 'stopText' | 'stopTokens' | 'endTokens'>
  /** The model's. */
  readonly endTokens: readonly number[]
  /** Tokens of a completion, at most: `sampling.maxTokens`, or what the context has room for. */
  readonly maxTokens: number
  /** `tokenizer.decodeStart('skip')` hides special tokens in the text, never in the ids. Null: no text, and stop strings are not found. */
  readonly decoding: DecodeState | null
}

/** Where a completion is: an immutable value, one for each completion. Made by `stopTracker`. */
export interface StopState {
  readonly rules: StopRules
  readonly matcher: StopMatcher
  readonly decoding: DecodeState | null
  /** Of the text so far in `matcher`. */
  readonly node: number
  /** Text that may turn out to be the beginning of a stop string. */
  readonly held: string
  /** Tokens read. */
  readonly count: number
}

/** What new tokens brought. */
export interface StopResult {
  /** The text that became certain. */
  readonly text: string
  readonly finish: Finish | null
  /** Tokens that were read: those after the one that ended the completion are not. */
  readonly read: number
}

/**
 * The state before the first token of a completion.
 *
 * Cost     O(length of all stop strings)
 *
 * @example
 * const rules = { sampling: DEFAULT_SAMPLING, endTokens: [7], maxTokens: 2, decoding: null }
 * readTokens(stopTracker(rules), [3, 7])[1] // { text: '', finish: { finishReason: 'stop', stopReason: null }, read: 2 }
 */
export const stopTracker = (rules: StopRules): StopState => ({
  rules,
  matcher: stopMatcher(rules.sampling.stop),
  decoding: rules.decoding,
  node: 0,
  held: '',
  count: 0,
})

/**
 * Token ids that must not be sampled next: all that would end the completion, while it has fewer than `minTokens` tokens. End tokens are
 * among them even where they are ignored.
 *
 * Source   vLLM's minimum of tokens.
 *
 * @example
 * const rules = { sampling: { ...DEFAULT_SAMPLING, minTokens: 1 }, endTokens: [7], maxTokens: 2, decoding: null }
 * bannedTokens(rules, 0) // [7]
 * bannedTokens(rules, 1) // []
 */
export const bannedTokens = ({ sampling, endTokens }: StopRules, count: number): readonly number[] =>
  count < sampling.minTokens ? [...endTokens, ...sampling.stopTokens] : []

/** Text that was read: what of it is certain, what is held, and the stop string that ended it. */
interface Reading {
  readonly text: string
  readonly held: string
  readonly node: number
  readonly stop: string | null
}

/** Reads more text of token number `count`. */
const readText = (state: StopState, more: string, count: number): Reading => {
  const { matcher, rules } = state
  const { minTokens, stopText } = rules.sampling
  const search = count > minTokens ? 'find' : 'skip'
  const { node, match } = findStop(matcher, { node: state.node, text: more, search })
  const text = state.held + more
  if (match !== null) {
    const end = state.held.length + match.end - (stopText === 'exclude' ? match.stop.length : 0)
    return { text: text.slice(0, end), held: '', node, stop: match.stop }
  }
  const open = stopText === 'exclude' ? openLength(matcher, node) : 0
  return { text: text.slice(0, text.length - open), held: text.slice(text.length - open), node, stop: null }
}

/** What the id of token number `count` means for the completion. */
const finishOf = ({ sampling, endTokens, maxTokens }: StopRules, id: number, count: number): Finish | null => {
  if (count > sampling.minTokens) {
    if (sampling.endTokens === 'stop' && endTokens.includes(id)) return { finishReason: 'stop', stopReason: null }
    if (sampling.stopTokens.includes(id)) return { finishReason: 'stop', stopReason: id }
  }
  return count >= maxTokens ? { finishReason: 'length', stopReason: null } : null
}

const atStop = (stop: string): Finish => ({ finishReason: 'stop', stopReason: stop })

interface Step {
  readonly state: StopState
  readonly text: string
  readonly finish: Finish | null
}

/** Reads one token. */
const readToken = (state: StopState, id: number): Step => {
  const { rules } = state
  const count = state.count + 1
  const finish = finishOf(rules, id, count)
  if (state.decoding === null) return { state: { ...state, count }, text: '', finish }
  const isSilent = finish?.finishReason === 'stop' && rules.sampling.stopText === 'exclude'
  const [decoding, more] = isSilent ? [state.decoding, ''] : decodeNext(state.decoding, [id])
  const { text, held, node, stop } = readText(state, more, count)
  const after = { ...state, decoding, held, node, count }
  if (stop !== null) return { state: after, text, finish: atStop(stop) }
  if (finish === null) return { state: after, text, finish }
  const end = readEnd(after)
  return { state: after, text: text + end.text, finish: end.finish ?? finish }
}

/**
 * The text that still waits, now that no tokens follow: for completions that end from outside. It may complete a stop string.
 *
 * @example
 * readEnd(stopTracker({ sampling: DEFAULT_SAMPLING, endTokens: [], maxTokens: 2, decoding: null })) // { text: '', finish: null }
 */
export const readEnd = (state: StopState): { readonly text: string; readonly finish: Finish | null } => {
  if (state.decoding === null) return { text: '', finish: null }
  const { text, held, stop } = readText(state, decodeEnd(state.decoding), state.count)
  return stop === null ? { text: text + held, finish: null } : { text, finish: atStop(stop) }
}

/**
 * Reads the tokens that were sampled next, up to the one that ends the completion.
 *
 * A completion ends, in this order: with a stop string in its text; with an end token, unless those are ignored; with a stop token; with
 * `maxTokens` tokens. Nothing but the last ends it with its first `minTokens` tokens. The token that ends it gives no text where `stopText`
 * is `exclude`. Of stop strings, the one that ends first counts, across tokens and parts of characters.
 *
 * Laws     the texts of all steps, joined, are those of all tokens at once; that is the decoded text, cut at the stop string. Held back is
 *          no more than the longest end that could still become a stop string, and nothing where those are included.
 * Effects  none: the state before can be used again.
 * Cost     O(T + length of the text)
 * Source   vLLM's detokenizer and scheduler.
 */
export const readTokens = (state: StopState, ids: ArrayLike<number>): readonly [StopState, StopResult] => {
  let at = state
  let text = ''
  for (let i = 0; i < ids.length; i++) {
    const step = readToken(at, ids[i]!)
    at = step.state
    text += step.text
    if (step.finish !== null) return [at, { text, finish: step.finish, read: i + 1 }]
  }
  return [at, { text, finish: null, read: ids.length }]
}
