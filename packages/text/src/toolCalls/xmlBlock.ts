/** TorchRL's blocks: `<tool name="..." tag="...">{...}</tool>`. */
import { isBlank, JSON_START, type JsonState, stepJson } from './json.js'
import { type CallMachine, markedCalls } from './machine.js'
import { argumentsEvent, BROKEN, done, END, isTagName, more, type Part } from './part.js'

const CLOSE = '</tool>'
const HEADER_LENGTH = 600

/** The part of a body that was read. `json` is undefined if the body is not JSON. */
interface Body {
  readonly json: JsonState | undefined
  readonly held: string
  readonly isEmpty: boolean
}

const TEXT_MODES: readonly string[] = ['string', 'stringEscape', 'keyString', 'keyEscape']

/** Returns true if a closing tag ends the body: inside a string of the JSON it does not. */
const mayClose = ({ json }: Body): boolean => json === undefined || !TEXT_MODES.includes(json.mode)

/** Adds a character that does not belong to the closing tag to the body. */
const grown = ({ json, isEmpty, held }: Body, c: string): Body => ({
  json: json === undefined ? undefined : stepJson(json, c),
  isEmpty: isEmpty && isBlank(c),
  held,
})

const bodyFrom =
  (before: Body): Part =>
  (c) => {
    let held = before.held + c
    let body = before
    let passed = ''
    while (held !== '' && !(mayClose(body) && CLOSE.startsWith(held))) {
      body = grown(body, held[0]!)
      passed += body.isEmpty ? '' : held[0]!
      held = held.slice(1)
    }
    if (held !== CLOSE) return more(bodyFrom({ ...body, held }), argumentsEvent(passed))
    return done('', [...argumentsEvent(body.isEmpty ? '{}' : passed), ...END])
  }

/** Reads the attributes up to `>`, and the body. */
const header =
  (before: string): Part =>
  (c) => {
    if (before === '' && !isBlank(c)) return BROKEN
    if (c !== '>') return before.length < HEADER_LENGTH && c !== '<' ? more(header(before + c)) : BROKEN
    const [, name, tag] = /^\s+name="([^"]*)"(?:\s+tag="([^"]*)")?\s*$/.exec(before) ?? []
    if (name === undefined || !isTagName(name)) return BROKEN
    return more(bodyFrom({ json: JSON_START, held: '', isEmpty: true }), [
      { _tag: 'Call', name, certainty: 'certain' },
      ...(tag === undefined || tag === '' ? [] : [{ _tag: 'Id', id: tag } as const]),
    ])
  }

/**
 * The machine of the `xml_block` format. A body that is not JSON becomes the call's arguments as it
 * was written.
 */
export const xmlBlock: CallMachine = markedCalls([{ tag: '<tool', block: header(''), close: CLOSE, holds: 'calls' }])
