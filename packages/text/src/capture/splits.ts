/**
 * Detects conversations that continued with different tokens, with the reason and the position, so
 * that the cause can be fixed.
 */
import * as E from 'fp-ts/lib/Either.js'
import { readArguments } from '../history/argumentText.js'
import { type CallForest, commonStart, type LinkedCall } from './linking.js'
import type { CapturedAnswer, CapturedCall } from './session.js'

/**
 * `retokenised`: the same messages, but the model's own answer has different tokens. `rerendered`:
 * the same messages, but the text before the answer is rendered differently, as when a template
 * drops old thoughts or the list of tools changes. `answer-edited`: the client changed the answer.
 * `history-edited`: the client changed, merged or dropped earlier messages.
 */
export type SplitReason = 'retokenised' | 'rerendered' | 'answer-edited' | 'history-edited'

/** A call whose messages continue an earlier call but whose tokens do not. */
export interface ChainSplit {
  readonly call: number
  /** The call whose tokens it should have begun with. */
  readonly after: { readonly call: number; readonly completion: number }
  readonly reason: SplitReason
  /** The index of the first token that differs. */
  readonly position: number
  /** Null if one of the two ends there. */
  readonly expected: number | null
  readonly got: number | null
  /** The next tokens of both, as text. Absent without the option `decode`. */
  readonly expectedText?: string
  readonly gotText?: string
}

/** The number of tokens after a difference that are reported as text. */
const WINDOW = 12

const textOf = (content: unknown): string =>
  Array.isArray(content)
    ? content
        .map((part: unknown) => (typeof part === 'object' && part !== null && 'text' in part ? String(part.text) : ''))
        .join('')
    : typeof content === 'string'
      ? content
      : ''

/** Normalizes JSON arguments by removing white space, and 1.0 to 1. Other text is unchanged. */
const tidy = (text: string): string => {
  const read = readArguments(text)
  return E.isRight(read) ? JSON.stringify(read.right.arguments) : text
}

const callKey = (called: unknown): unknown => {
  const { function: inner } = called as {
    readonly function?: { readonly name?: unknown; readonly arguments?: unknown }
  } // the endpoint has checked it
  return [inner?.name, typeof inner?.arguments === 'string' ? tidy(inner.arguments) : inner?.arguments]
}

/** Returns a text that is equal for messages with equal contents. Ids of calls do not count. */
const messageKey = (message: object): string => {
  const { role, content, tool_calls: calls } = message as Readonly<Record<string, unknown>> // any object has these, or undefined
  return JSON.stringify([role, textOf(content), Array.isArray(calls) ? calls.map(callKey) : []])
}

const answerKey = ({ text, calls }: CapturedAnswer): string =>
  JSON.stringify(['assistant', text, calls.map(({ name, arguments: args }) => [name, tidy(args)])])

/** The messages and the answer of a call. */
interface Heard {
  readonly node: LinkedCall
  readonly keys: readonly string[]
}

const sharedKeys = (a: readonly string[], b: readonly string[]): number => {
  const differs = a.findIndex((key, i) => key !== b[i])
  return differs === -1 ? Math.min(a.length, b.length) : differs
}

const ASSISTANT = '["assistant",'

/** Returns true if an earlier answer of the model occurs again at another position. */
const comesUpAgain = (before: readonly string[], now: readonly string[], shared: number): boolean => {
  const later = new Set(now.slice(shared))
  return before.slice(shared).some((key) => key.startsWith(ASSISTANT) && later.has(key))
}

const reasonOf = (
  { keys, node }: Heard,
  now: readonly string[],
  place: { readonly shared: number; readonly common: number },
): SplitReason | undefined => {
  const { shared, common } = place
  if (shared === keys.length) return common >= node.call.prompt.length ? 'retokenised' : 'rerendered'
  if (shared === keys.length - 1) return now.length > shared ? 'answer-edited' : undefined
  return comesUpAgain(keys, now, shared) ? 'history-edited' : undefined
}

/**
 * Finds a split without messages: the only evidence is a prompt that diverges from the tokens of an
 * answer.
 */
const splitOfTokens = (call: CapturedCall, earlier: readonly LinkedCall[], parent: LinkedCall | null) => {
  const at = earlier
    .filter((node) => node.call.messages === null && node.call.prompt.length > (parent?.full.length ?? 0))
    .map((node) => ({ node, common: commonStart(node.full, call.prompt) }))
    .filter(({ node, common }) => common > node.call.prompt.length && common < node.full.length)
  const best = at.reduce<(typeof at)[number] | undefined>(
    (a, b) => (a !== undefined && a.common > b.common ? a : b),
    undefined,
  )
  return best === undefined || best.common === call.prompt.length
    ? undefined
    : { ...best, reason: 'retokenised' as const }
}

const splitOfMessages = (
  call: CapturedCall,
  now: readonly string[],
  heard: readonly Heard[],
  parent: LinkedCall | null,
) => {
  const known = heard.map((one) => ({ one, shared: sharedKeys(one.keys, now) }))
  const linked = known.find(({ one }) => one.node === parent)?.shared ?? 0
  const most = known.reduce((n, { shared }) => Math.max(n, shared), 0)
  if (parent !== null && most <= linked) return undefined
  const nearest = known
    .filter(({ shared }) => shared === most)
    .map(({ one, shared }) => ({
      one,
      shared,
      common: commonStart(one.node.full, call.prompt),
    }))
  const best = nearest.reduce<(typeof nearest)[number] | undefined>(
    (a, b) => (a !== undefined && a.common > b.common ? a : b),
    undefined,
  )
  const reason = best === undefined ? undefined : reasonOf(best.one, now, best)
  return best === undefined || reason === undefined ? undefined : { node: best.one.node, common: best.common, reason }
}

/**
 * Finds the calls of a session that continue an earlier call in messages, but not in tokens, with
 * the position of the first difference.
 *
 * A call that repeats an earlier one, that continues it token by token, or that begins another
 * conversation, is not a split.
 *
 * Cost     each call is compared with all before it: messages first, tokens only of the nearest.
 */
export const chainSplits = (
  { nodes, parents }: CallForest,
  calls: readonly CapturedCall[],
  decode?: (ids: Int32Array) => string,
): readonly ChainSplit[] => {
  const heard = nodes.map(
    (node): Heard => ({
      node,
      keys: [...(node.call.messages ?? []).map(messageKey), answerKey(node.sampled.answer)],
    }),
  )
  return calls
    .toSorted((a, b) => a.index - b.index)
    .flatMap((call) => {
      const parent = parents.get(call.index) ?? null
      const before = heard.filter(({ node }) => node.call.index < call.index)
      const found =
        call.messages === null
          ? splitOfTokens(
              call,
              before.map(({ node }) => node),
              parent,
            )
          : splitOfMessages(
              call,
              call.messages.map(messageKey),
              before.filter(({ node }) => node.call.messages !== null),
              parent,
            )
      if (found === undefined) return []
      const { node, common, reason } = found
      return [
        {
          call: call.index,
          after: { call: node.call.index, completion: node.completion },
          reason,
          position: common,
          expected: node.full[common] ?? null,
          got: call.prompt[common] ?? null,
          ...(decode && {
            expectedText: decode(node.full.slice(common, common + WINDOW)),
            gotText: decode(call.prompt.slice(common, common + WINDOW)),
          }),
        },
      ]
    })
}
