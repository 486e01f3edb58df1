/**
 * The post-processors of `tokenizer.json`: offsets without blanks, and the special tokens around
 * texts.
 */
import { tokenizerWork } from './budget.js'
import { addedEncoding, concatenateEncodings, type Encoding } from './encoding.js'
import type { SimplePostProcessor, TemplatePiece } from './files.js'

/**
 * Returns the text of a token for the trimming of offsets. `found` is the part of the text that the
 * token came from, so an added token that matches the blanks around it includes them.
 */
type TokenText = (id: number, found: string) => string

interface Trimming {
  readonly text: string
  readonly tokenOf: TokenText
  readonly leadingBlank: 'added' | 'in the text'
}

/**
 * The blanks that trimming counts in tokens: white space, or the character that encodes a blank.
 */
const BLANK = /[\u0120\p{White_Space}]/u

const countBlanks = (characters: readonly string[]): number => {
  const other = characters.findIndex((character) => !BLANK.test(character))
  return other < 0 ? characters.length : other
}

/** Moves a position by a number of characters, forward or back. */
const moved = (text: string, place: number, characters: number): number => {
  let at = place
  for (let i = 0; i < characters; i++) at += text.codePointAt(at)! > 0xffff ? 2 : 1
  for (let i = 0; i > characters; i--) at -= /[\udc00-\udfff]/.test(text[at - 1] ?? '') ? 2 : 1
  return at
}

/**
 * Trims blanks from the offsets of tokens. A single blank that was inserted before the text is not
 * trimmed.
 */
const trimmed = (encoding: Encoding, { text, tokenOf, leadingBlank }: Trimming): Encoding => {
  const offsets = encoding.offsets.slice()
  encoding.ids.forEach((id, i) => {
    const [start, end] = [offsets[2 * i]!, offsets[2 * i + 1]!]
    const token = tokenOf(id, text.slice(start, end))
    tokenizerWork.spendCharacters(token.length)
    const characters = Array.from(token)
    const leading = countBlanks(characters)
    const isAdded = leading === 1 && leadingBlank === 'added' && (i === 0 || start === 0)
    const trailing = countBlanks([...characters].reverse())
    if (leading > 0 && !isAdded) offsets[2 * i] = Math.min(moved(text, start, leading), end)
    if (trailing > 0 && end >= trailing) offsets[2 * i + 1] = Math.max(moved(text, end, -trailing), offsets[2 * i]!)
  })
  return { ...encoding, offsets }
}

/** Slots for the special tokens and the texts, in order. */
interface Template {
  readonly single: readonly TemplatePiece[]
  readonly pair: readonly TemplatePiece[]
  readonly idsOf: (name: string) => readonly number[]
}

const special = (id: string, typeId = 0): TemplatePiece => ({ SpecialToken: { id, type_id: typeId } })
const text = (id: 'A' | 'B', typeId = 0): TemplatePiece => ({ Sequence: { id, type_id: typeId } })

/** Returns the template of a post-processor, or undefined if it only trims. */
const templateOf = (json: SimplePostProcessor): Template | undefined => {
  if (json.type === 'ByteLevel') return undefined
  if (json.type === 'TemplateProcessing') {
    const ids = new Map(Object.entries(json.special_tokens).map(([name, token]) => [name, token.ids]))
    for (const piece of [...json.single, ...json.pair]) {
      if ('SpecialToken' in piece && !ids.has(piece.SpecialToken.id)) {
        throw new RangeError(`the template's special token '${piece.SpecialToken.id}' has no ids`)
      }
    }
    return { single: json.single, pair: json.pair, idsOf: (name) => ids.get(name) ?? [] }
  }
  const { cls, sep } = json
  const second = json.type === 'BertProcessing' ? 1 : 0
  const between = json.type === 'BertProcessing' ? [] : [special('sep')]
  const single = [special('cls'), text('A'), special('sep')]
  return {
    single,
    pair: [...single, ...between, text('B', second), special('sep', second)],
    idsOf: (name) => [name === 'cls' ? cls[1] : sep[1]],
  }
}

export interface PostProcessor {
  /** Returns the number of tokens that the template adds. */
  readonly added: (texts: 1 | 2) => number
  readonly trim: (encoding: Encoding, text: string) => Encoding
  /** Puts the texts in their slots, with or without the template's special tokens. */
  readonly frame: (encodings: readonly Encoding[], template: 'add' | 'omit') => Encoding
}

const PLAIN: Template = { single: [text('A')], pair: [text('A'), text('B', 1)], idsOf: () => [] }

/** Returns the trimming of one processor, which runs before it adds tokens. */
const trimOf =
  (json: SimplePostProcessor, tokenOf: TokenText) =>
  (encoding: Encoding, text: string): Encoding => {
    if (json.type !== 'ByteLevel' && json.type !== 'RobertaProcessing') return encoding
    if (!json.trim_offsets) return encoding
    return trimmed(encoding, { text, tokenOf, leadingBlank: json.add_prefix_space ? 'added' : 'in the text' })
  }

/**
 * Combines the post-processors of a file.
 *
 * Errors   throws RangeError for a template with a special token without ids, and for two
 *          templates, because their nesting is not supported.
 */
export const postProcessor = (steps: readonly SimplePostProcessor[], tokenOf: TokenText): PostProcessor => {
  const templates = steps.map(templateOf).filter((template) => template !== undefined)
  if (templates.length > 1) throw new RangeError('two templates in post_processor are not supported')
  const template = templates[0] ?? PLAIN
  const trims = steps.map((json) => trimOf(json, tokenOf))
  const piecesOf = (texts: number): readonly TemplatePiece[] => (texts === 1 ? template.single : template.pair)
  return {
    added: (texts) =>
      piecesOf(texts).reduce(
        (sum, piece) => sum + ('SpecialToken' in piece ? template.idsOf(piece.SpecialToken.id).length : 0),
        0,
      ),
    trim: (encoding, original) => trims.reduce((result, trim) => trim(result, original), encoding),
    frame: (encodings, mode) =>
      concatenateEncodings(
        piecesOf(encodings.length).map((piece) => {
          if ('SpecialToken' in piece) {
            const ids = mode === 'add' ? template.idsOf(piece.SpecialToken.id) : []
            return addedEncoding(ids, piece.SpecialToken.type_id)
          }
          const { id, type_id } = piece.Sequence
          const encoding = encodings[id === 'A' ? 0 : 1]!
          return { ...encoding, typeIds: new Int32Array(encoding.ids.length).fill(type_id) }
        }),
      ),
  }
}
