/**
 * The text that a template writes around contents, found by rendering conversations of known words
 * and cutting the output at those words.
 *
 * A conversation with contents c1 ... cn then renders to: the opening of the first turn, c1, the
 * text between the roles of c1 and c2, c2, ..., cn, the end of the last turn.
 */
import type { TemplateFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { History, type Message, message, type ToolCall } from '../history/history.js'
import { type ChatTemplate, type RenderOptions, refuseTemplate, renderText } from './chatTemplate.js'

export type GrammarOptions = Omit<RenderOptions, 'generationPrompt'>

/** The format of tool calls: JSON objects between fixed texts. */
export interface CallGrammar {
  /** The text before the first call, after content and without content. */
  readonly head: string
  readonly bareHead: string
  /** The text between two calls; undefined if a message can have only one. */
  readonly between: string | undefined
  /** The names of the fields of a call's object. */
  readonly fields: readonly [name: string, args: string]
}

/** The role of an assistant message that ends with tool calls. */
export const CALLING = 'assistant with calls'

export interface Grammar {
  /** The opening of the text, by the role of the first message. */
  readonly begin: ReadonlyMap<string, string>
  /** The text between two contents, by their roles. */
  readonly between: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** The end of the text, by the role of the last message. */
  readonly end: ReadonlyMap<string, string>
  /** The end of the text with the generation prompt. */
  readonly prompt: ReadonlyMap<string, string>
  readonly calls: CallGrammar | undefined
  /**
   * The text before the content of the last answer that earlier answers do not have: empty
   * thoughts.
   */
  readonly lastOpening: string
  /** Text around contents and in calls that looks like a special token. */
  readonly markers: ReadonlySet<string>
}

/** `<|im_start|>`, `</s>`, `[INST]`. */
const MARKER = /<[^<>\s]+>|\[\/?[A-Z_]+\]/g

type Turn = { readonly role: string; readonly calls?: 1 | 2; readonly content?: '' }

const word = (i: number): string => `zq${i}vx`

const probeCall = (i: number): ToolCall => ({ name: `name${i}zq`, arguments: { [`key${i}zq`]: `value${i}zq` } })

const probeMessage = ({ role, calls = 0 as never, content }: Turn, i: number): Message =>
  message(role, content ?? word(i), { toolCalls: Array.from({ length: calls as number }, (_, n) => probeCall(n)) })

/**
 * Returns the parts of the text between the words, or undefined if the template refuses or does not
 * show each word once and in order.
 */
type Probe = (turns: readonly Turn[], ending?: 'add' | 'omit') => readonly string[] | undefined

const probeWith =
  (template: ChatTemplate, options: GrammarOptions): Probe =>
  (turns, ending = 'omit') => {
    const text = renderText(template, History(turns.map(probeMessage)), { ...options, generationPrompt: ending })
    if (E.isLeft(text)) return undefined
    const parts = text.right.split(/zq\d+vx/)
    const words = text.right.match(/zq\d+vx/g) ?? []
    const expected = turns.flatMap(({ content }, i) => (content === '' ? [] : [word(i)]))
    return words.join() === expected.join() ? parts : undefined
  }

/** Texts by role or pair of roles, with the first contradiction among them. */
interface Facts {
  readonly set: (map: Map<string, string>, key: string, text: string) => void
  readonly contradiction: () => string | undefined
}

const facts = (): Facts => {
  let found: string | undefined
  return {
    set: (map, key, text) => {
      const known = map.get(key)
      if (known !== undefined && known !== text) found ??= key
      map.set(key, text)
    },
    contradiction: () => found,
  }
}

/**
 * Returns the end of the JSON object that begins at `start`: the index after its last brace, or -1
 * if the object is not closed.
 */
export const objectEnd = (text: string, start: number): number => {
  let depth = 0
  let isQuoted = false
  for (let i = start; i < text.length; i += 1) {
    const char = text[i]!
    if (isQuoted) {
      if (char === '\\') i += 1
      else if (char === '"') isQuoted = false
    } else if (char === '"') isQuoted = true
    else if (char === '{') depth += 1
    else if (char === '}') {
      depth -= 1
      if (depth === 0) return i + 1
    }
  }
  return -1
}

/** Parses a JSON object. Returns undefined for any other text. */
const parseObject = (text: string): Readonly<Record<string, unknown>> | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Readonly<Record<string, unknown>>) // the checks above leave only objects
      : undefined
  } catch {
    return undefined // the caller expects undefined for other text
  }
}

interface FoundCall {
  readonly start: number
  readonly end: number
  readonly fields: readonly [string, string]
}

/** Objects that are tried for a call, because each may extend over the whole text. */
const TRIED = 64

/** Finds the object with a probe's call among the first objects of a text. */
const findCall = (text: string, i: number): FoundCall | undefined => {
  const { name, arguments: args } = probeCall(i)
  let tried = 0
  for (let start = text.indexOf('{'); start !== -1 && tried < TRIED; start = text.indexOf('{', start + 1)) {
    tried++
    const end = objectEnd(text, start)
    const object = end === -1 ? undefined : parseObject(text.slice(start, end))
    if (object === undefined) continue
    const [nameField] = Object.entries(object).find(([, value]) => value === name) ?? []
    const [argsField] = Object.entries(object).find(([, value]) => JSON.stringify(value) === JSON.stringify(args)) ?? []
    if (nameField !== undefined && argsField !== undefined) return { start, end, fields: [nameField, argsField] }
  }
  return undefined
}

interface Reported {
  readonly between: Map<string, Map<string, string>>
  readonly end: Map<string, string>
  readonly prompt: Map<string, string>
}

const nestedMap = (map: Map<string, Map<string, string>>, key: string): Map<string, string> => {
  const inner = map.get(key) ?? new Map<string, string>()
  map.set(key, inner)
  return inner
}

/**
 * Derives the format of calls and the text after them. Returns undefined if calls are not JSON
 * objects between fixed texts.
 */
const callGrammar = (probe: Probe, reported: Reported): CallGrammar | undefined => {
  const roles = [{ role: 'user' }, { role: 'assistant', calls: 1 }, { role: 'tool' }, { role: 'assistant' }] as const
  const after = probe(roles)?.[2]
  const found = after === undefined ? undefined : findCall(after, 0)
  const bare = probe([roles[0], { role: 'assistant', calls: 1, content: '' }, roles[2]])?.[1]
  const bareFound = bare === undefined ? undefined : findCall(bare, 0)
  const opening = reported.between.get('user')?.get('assistant')
  if (!after || !found || !bare || !bareFound || opening === undefined || !bare.startsWith(opening)) return undefined
  const head = after.slice(0, found.start)
  nestedMap(reported.between, CALLING).set('tool', after.slice(found.end))
  const last = probe([roles[0], roles[1]])?.[2]
  if (last?.startsWith(head)) reported.end.set(CALLING, last.slice(objectEnd(last, head.length)))
  const user = probe([roles[0], roles[1], { role: 'user' }])?.[2]
  if (user?.startsWith(head)) nestedMap(reported.between, CALLING).set('user', user.slice(objectEnd(user, head.length)))
  const two = probe([roles[0], { role: 'assistant', calls: 2 }, roles[2]])?.[2]
  const second = two === undefined ? undefined : findCall(two, 1)
  const first = two === undefined ? undefined : findCall(two, 0)
  const between = two !== undefined && first && second ? two.slice(first.end, second.start) : undefined
  return { head, bareHead: bare.slice(opening.length, bareFound.start), between, fields: found.fields }
}

/** Returns the texts around calls in any format, with content and without. */
const callTexts = (probe: Probe): readonly string[] =>
  [{}, { content: '' as const }].flatMap((content) => {
    const turns = [{ role: 'user' }, { role: 'assistant', calls: 1, ...content } as const]
    return [probe(turns)?.at(-1), probe([...turns, { role: 'tool' }])?.at(-2)].flatMap((text) => text ?? [])
  })

const TURNS = ['user', 'assistant', 'user', 'assistant', 'user'] as const

/** Conversations that show the text between roles: alternating ones, and some with tool results. */
const SEQUENCES: readonly (readonly string[])[] = [
  TURNS,
  ['system', ...TURNS],
  ['user', 'assistant', 'tool', 'tool', 'assistant', 'user'],
  ['user', 'assistant', 'tool', 'user', 'assistant', 'user'],
]

/**
 * Derives the text that a template writes around contents.
 *
 * Errors   `Left(TemplateFailure)` if it refuses conversations of a user and an assistant, if the
 *          text between two roles depends on the position in the conversation, or if that text is
 *          empty.
 * Cost     about fifteen short renderings.
 */
export const grammarOf = (template: ChatTemplate, options: GrammarOptions): E.Either<TemplateFailure, Grammar> => {
  const probe = probeWith(template, options)
  const { set, contradiction } = facts()
  const begin = new Map<string, string>()
  const reported: Reported = { between: new Map(), end: new Map(), prompt: new Map() }
  for (const roles of SEQUENCES) {
    const parts = probe(roles.map((role) => ({ role })))
    if (parts === undefined) continue
    set(begin, roles[0]!, parts[0]!)
    for (const [i, role] of roles.slice(1).entries()) set(nestedMap(reported.between, roles[i]!), role, parts[i + 1]!)
  }
  for (const roles of [['user'], ['user', 'assistant'], ['user', 'assistant', 'tool'], ['system']]) {
    const last = roles.at(-1)!
    const closed = probe(roles.map((role) => ({ role })))?.at(-1)
    if (closed !== undefined) reported.end.set(last, closed)
    const open = probe(
      roles.map((role) => ({ role })),
      'add',
    )?.at(-1)
    if (open !== undefined) reported.prompt.set(last, open)
  }
  if (!begin.has('user'))
    return refuseTemplate('the chat template does not show the contents of a user and an assistant one by one')
  const varying = contradiction()
  if (varying !== undefined)
    return refuseTemplate(
      `the text that the chat template writes before a turn of '${varying}' depends on its position`,
    )
  if ([...reported.between.values()].some((inner) => [...inner.values()].includes(''))) {
    return refuseTemplate('the chat template writes nothing between two turns')
  }
  const calls = callGrammar(probe, reported)
  const opening = reported.between.get('user')?.get('assistant') ?? ''
  const last = probe([{ role: 'user' }, { role: 'assistant' }])?.[1] ?? ''
  const around = [...begin.values(), ...reported.end.values(), ...callTexts(probe)]
  const texts = [...around, ...[...reported.between.values()].flatMap((inner) => [...inner.values()])]
  return E.right({
    begin,
    ...reported,
    calls,
    lastOpening: last.startsWith(opening) ? last.slice(opening.length) : '',
    markers: new Set(texts.flatMap((text) => text.match(MARKER) ?? [])),
  })
}
