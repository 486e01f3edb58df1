/** The end of a completion, and its final text so far, as pure state transitions. */
import { type DecodeState, decodeEnd, decodeNext, type FinishReason, type SamplingParams } from '@tandem-rl/text'
import { findStop, openLength, type StopMatcher, stopMatcher } from './stopStrings.js'

/** The reason why a completion ended. */
export interface Finish {
  readonly finishReason: FinishReason
  /** The stop string or stop token id; null for end tokens and the length limit. */
  readonly stopReason: string | number | null
}

/** The rules that end completions of a request. */
export interface StopRules {
  readonly sampling: Pick<SamplingParams, 'minTokens' | 'stop' | 'stopText' | 'stopTokens' | 'endTokens'>
  /** The model's end tokens. */
  readonly endTokens: readonly number[]
  /** Maximum number of tokens of a completion: `sampling.maxTokens`, or the rest of the context. */
  readonly maxTokens: number
  /**
   * `tokenizer.decodeStart('skip')` hides special tokens in the text, but not in the ids. `null`:
   * no text, and stop strings are not found.
   */
  readonly decoding: DecodeState | null
}

/** The state of a completion, as an immutable value. Made by `stopTracker`. */
export interface StopState {
  readonly rules: StopRules
  readonly matcher: StopMatcher
  readonly decoding: DecodeState | null
  /** State of the text so far in `matcher`. */
  readonly node: number
  /** Text that may be the start of a stop string. */
  readonly held: string
  /** Number of tokens read. */
  readonly count: number
}

/** The result of reading new tokens. */
export interface StopResult {
  /** The text that became final. */
  readonly text: string
  readonly finish: Finish | null
  /** Number of tokens read. Those after the end of the completion are not read. */
  readonly read: number
}

/** Matchers by their lists of stop strings, which the completions of a request share. */
const matchers = new WeakMap<readonly string[], StopMatcher>()

const matcherOf = (stops: readonly string[]): StopMatcher => {
  const known = matchers.get(stops) ?? stopMatcher(stops)
  matchers.set(stops, known)
  return known
}

/**
 * Returns the state before the first token of a completion.
 *
 * Cost     O(length of all stop strings) for the first completion with a list of them
 *
 * @example
 * const rules = { sampling: DEFAULT_SAMPLING, endTokens: [7], maxTokens: 2, decoding: null }
 * readTokens(stopTracker(rules), [3, 7])[1] // { text: '', finish: { finishReason: 'stop', stopReason: null }, read: 2 }
 */
export const stopTracker = (rules: StopRules): StopState => ({
  rules,
  matcher: matcherOf(rules.sampling.stop),
  decoding: rules.decoding,
  node: 0,
  held: '',
  count: 0,
})

/**
 * Returns the token ids that must not be sampled next: while the completion has fewer than
 * `minTokens` tokens, all that would end it. This includes end tokens even if they are ignored.
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

/** The result of reading text: the final part, the held part, and the stop string that ended it. */
interface Reading {
  readonly text: string
  readonly held: string
  readonly node: number
  readonly stop: string | null
}

/** Reads more text, which belongs to token number `count`. */
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

/** Returns the end of the completion after token number `count`, if any. */
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
 * Returns the held text of a completion that ends from outside. It may complete a stop string.
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
 * Reads the next sampled tokens, up to the one that ends the completion.
 *
 * A completion ends, in this order of priority: with a stop string in its text; with an end token,
 * unless those are ignored; with a stop token; with `maxTokens` tokens. Only the last can end it
 * within its first `minTokens` tokens. The token that ends it gives no text if `stopText` is
 * `exclude`. Of several stop strings, the one that ends first applies, across tokens and partial
 * characters.
 *
 * Laws     the joined texts of all steps equal the text of all tokens at once, which is the decoded
 *          text, cut at the stop string. The held text is at most the longest suffix that could
 *          become a stop string, and empty if stop strings are included.
 * Effects  none: the previous state can be used again.
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
