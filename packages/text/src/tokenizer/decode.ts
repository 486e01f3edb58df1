/**
 * The decoders of `tokenizer.json` as machines that read tokens and emit text as soon as it is
 * final.
 *
 * A whole decoding feeds the same machine all tokens at once and then the end, so streaming and
 * decoding give the same text.
 */
import { joinBytes } from '@tandem-rl/base'
import { byteCharacters } from './bytePairEncoding.js'
import type { SimpleDecoder } from './files.js'
import { compilePattern, replaceMatches } from './pattern.js'

/**
 * An immutable machine. `push` returns the machine after the tokens, with the text that they emit.
 */
export interface DecodingMachine {
  readonly push: (tokens: readonly string[]) => readonly [DecodingMachine, readonly string[]]
  /** Returns the text that is still buffered at the end of the tokens. */
  readonly finish: () => readonly string[]
}

/**
 * Memoizes a function of a token. There are at most as many results as tokens in the vocabulary.
 */
const remembered = <T>(change: (token: string) => T): ((token: string) => T) => {
  const known = new Map<string, T>()
  return (token) => {
    const before = known.get(token)
    if (before !== undefined) return before
    const result = change(token)
    known.set(token, result)
    return result
  }
}

/** Creates a machine that changes each token by itself. */
const each = (change: (token: string) => string): DecodingMachine => {
  const machine: DecodingMachine = {
    push: (tokens) => [machine, tokens.map(change)],
    finish: () => [],
  }
  return machine
}

/** Creates a machine that changes the first token differently from the rest. */
const firstAndRest = (first: (token: string) => string, rest: (token: string) => string): DecodingMachine => ({
  push: (tokens) =>
    tokens.length === 0
      ? [firstAndRest(first, rest), []]
      : [each(rest), tokens.map((token, i) => (i === 0 ? first(token) : rest(token)))],
  finish: () => [],
})

/** Feeds the output of one machine to another. */
const chained = (first: DecodingMachine, second: DecodingMachine): DecodingMachine => ({
  push: (tokens) => {
    const [nextFirst, between] = first.push(tokens)
    const [nextSecond, result] = second.push(between)
    return [chained(nextFirst, nextSecond), result]
  },
  finish: () => {
    const [last, result] = second.push(first.finish())
    return [...result, ...last.finish()]
  },
})

/**
 * Returns the length in bytes of the UTF-8 sequence that begins with this byte, or 0 if it cannot
 * begin one.
 */
const sequenceLength = (lead: number): number => {
  if (lead >= 0xc2 && lead <= 0xdf) return 2
  if (lead >= 0xe0 && lead <= 0xef) return 3
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0
}

/**
 * Returns true if a second byte may follow a lead: no overlong forms, no surrogates, nothing above
 * U+10FFFF.
 */
const isSecond = (lead: number, second: number): boolean => {
  const least = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80
  const most = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf
  return second >= least && second <= most
}

/** Returns the number of bytes at the end that later bytes may complete to a character. */
const incompleteTail = (bytes: Uint8Array): number => {
  for (let length = 1; length <= Math.min(3, bytes.length); length++) {
    const lead = bytes[bytes.length - length]!
    if (lead >= 0x80 && lead < 0xc0) continue
    const isOpen = sequenceLength(lead) > length
    return isOpen && (length === 1 || isSecond(lead, bytes[bytes.length - length + 1]!)) ? length : 0
  }
  return 0
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })
const strictUtf8 = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true })
const encoder = new TextEncoder()

/**
 * Returns the bytes of tokens that are spelled with GPT-2's characters. A token with any other
 * character is encoded as UTF-8.
 */
const bytesOfTokens = (): ((token: string) => Uint8Array) => {
  const bytes = new Map(byteCharacters().map((character, byte) => [character, byte]))
  return remembered((token) => {
    const spelled = Array.from(token, (character) => bytes.get(character))
    return spelled.every((byte) => byte !== undefined) ? Uint8Array.from(spelled) : encoder.encode(token)
  })
}

/** Decodes bytes to text. An incomplete character is buffered; an invalid one becomes U+FFFD. */
const byteLevel = (bytesOf: (token: string) => Uint8Array, held: Uint8Array): DecodingMachine => ({
  push: (tokens) => {
    const bytes = joinBytes([held, ...tokens.map(bytesOf)])
    const end = bytes.length - incompleteTail(bytes)
    const text = utf8.decode(bytes.subarray(0, end))
    return [byteLevel(bytesOf, bytes.slice(end)), text === '' ? [] : [text]]
  },
  finish: () => (held.length === 0 ? [] : [utf8.decode(held)]),
})

const byteOf = (token: string): number | undefined => {
  if (token.charCodeAt(0) !== 0x3c || token.length !== 6) return undefined
  const [, digits] = /^<0x([0-9A-Fa-f]{2})>$/.exec(token) ?? []
  return digits === undefined ? undefined : Number.parseInt(digits, 16)
}

/**
 * Decodes a run of bytes: to text if the whole run is valid UTF-8, otherwise to one U+FFFD for each
 * byte.
 */
const textOfRun = (run: readonly number[]): readonly string[] => {
  if (run.length === 0) return []
  try {
    return [strictUtf8.decode(Uint8Array.from(run))]
  } catch {
    return ['\ufffd'.repeat(run.length)]
  }
}

/** Buffers tokens for single bytes until the end of their run. */
const byteFallback = (run: readonly number[]): DecodingMachine => ({
  push: (tokens) => {
    const result: string[] = []
    let bytes = [...run]
    for (const token of tokens) {
      const byte = byteOf(token)
      if (byte !== undefined) {
        bytes.push(byte)
        continue
      }
      if (bytes.length > 0) {
        result.push(...textOfRun(bytes))
        bytes = []
      }
      result.push(token)
    }
    return [byteFallback(bytes), result]
  },
  finish: () => textOfRun(run),
})

const CONTRACTIONS: readonly (readonly [string, string])[] = [
  [' .', '.'],
  [' ?', '?'],
  [' !', '!'],
  [' ,', ','],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [' do not', " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
]

/** Removes the blank before a full stop, a comma or an English ending such as 's. */
const cleanUp = (text: string): string => CONTRACTIONS.reduce((result, [from, to]) => result.replaceAll(from, to), text)

const wordPiece = ({ prefix, cleanup }: Extract<SimpleDecoder, { readonly type: 'WordPiece' }>): DecodingMachine => {
  const clean = cleanup ? cleanUp : (text: string) => text
  const rest = (token: string): string =>
    clean(prefix !== '' && token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`)
  return firstAndRest(remembered(clean), remembered(rest))
}

const metaspace = (json: Extract<SimpleDecoder, { readonly type: 'Metaspace' }>): DecodingMachine => {
  const isPrefixed = (json.prepend_scheme ?? (json.add_prefix_space === false ? 'never' : 'always')) !== 'never'
  const rest = remembered((token) => token.replaceAll(json.replacement, ' '))
  return firstAndRest(isPrefixed ? (token) => token.replaceAll(json.replacement, '') : rest, rest)
}

/**
 * Replaces the suffix that ends a word by a blank, except in the last token. Each token is buffered
 * until another follows.
 */
const endOfWord = (suffix: string, held: string | undefined): DecodingMachine => ({
  push: (tokens) => {
    const all = [...(held === undefined ? [] : [held]), ...tokens]
    return [endOfWord(suffix, all.at(-1)), all.slice(0, -1).map((token) => token.replaceAll(suffix, ' '))]
  },
  finish: () => (held === undefined ? [] : [held.replaceAll(suffix, '')]),
})

interface Stripping {
  readonly content: string
  readonly start: number
  readonly stop: number
}

/**
 * Returns the range of a text without the stripped contents at its ends, at most `start` and `stop`
 * of them.
 */
const between = (text: string, { content, start, stop }: Stripping): { readonly from: number; readonly to: number } => {
  const width = content.length
  let from = 0
  while (from < start * width && text.startsWith(content, from)) from += width
  let to = text.length
  while (to > text.length - stop * width && to - width >= from && text.endsWith(content, to)) to -= width
  return { from, to }
}

/**
 * Strips the ends of the joined text of all tokens. Text that may have to be removed is buffered.
 */
const stripWhole = (stripping: Stripping, held: string): DecodingMachine => ({
  push: (tokens) => {
    const text = held + tokens.join('')
    const { from, to } = between(text, stripping)
    if (from === text.length) {
      const start = stripping.start - from / Math.max(stripping.content.length, 1)
      return [stripWhole({ ...stripping, start }, ''), []]
    }
    const next = stripWhole({ ...stripping, start: 0 }, text.slice(to))
    return [next, from === to ? [] : [text.slice(from, to)]]
  },
  finish: () => [],
})

const SPACINGS: readonly (readonly [string, string])[] = CONTRACTIONS.filter(([from]) => from !== ' do not')

/**
 * The longest end of a text that a spacing rule could still change. No rule crosses any other
 * character.
 */
const OPEN_END = /(?<![ 'nvr])[ 'nvr]+$/

/**
 * Removes the blanks before full stops, commas and endings in the joined text of all tokens. Text
 * that a later token could change is buffered.
 *
 * Source   `clean_up_tokenization` of Transformers 5.17.
 */
const cleaning = (held: string): DecodingMachine => {
  const clean = (text: string): readonly string[] => {
    const result = SPACINGS.reduce((cleaned, [from, to]) => cleaned.replaceAll(from, to), text)
    return result === '' ? [] : [result]
  }
  return {
    push: (tokens) => {
      const text = held + tokens.join('')
      const end = text.length - (OPEN_END.exec(text)?.[0].length ?? 0)
      return [cleaning(text.slice(end)), clean(text.slice(0, end))]
    },
    finish: () => clean(held),
  }
}

/** Creates a machine whose whole text is cleaned. */
export const cleaned = (machine: DecodingMachine): DecodingMachine => chained(machine, cleaning(''))

/** The form of a decoder's input: separate tokens, or pieces of one text. */
type Stage = 'tokens' | 'text'

/** Returns the machine of a decoder, or undefined for a decoder that changes nothing. */
const compile = (json: SimpleDecoder, stage: Stage): DecodingMachine | undefined => {
  switch (json.type) {
    case 'ByteLevel':
      return byteLevel(bytesOfTokens(), new Uint8Array(0))
    case 'ByteFallback':
      return byteFallback([])
    case 'Fuse':
      return undefined
    case 'WordPiece':
      return wordPiece(json)
    case 'Metaspace':
      return metaspace(json)
    case 'BPEDecoder':
      return endOfWord(json.suffix, undefined)
    case 'Replace': {
      const find = compilePattern(json.pattern)
      const replaced = (token: string): string => replaceMatches(token, find, json.content) ?? token
      return each(stage === 'text' ? replaced : remembered(replaced))
    }
    case 'Strip':
      if (stage === 'text') return stripWhole(json, '')
      return each((token) => {
        const { from, to } = between(token, json)
        return token.slice(from, to)
      })
  }
}

/** Returns true if the decoder can follow one that joined the tokens to one text. */
const isOnText = (json: SimpleDecoder): boolean =>
  json.type === 'Strip' ||
  json.type === 'Fuse' ||
  (json.type === 'Replace' && 'String' in json.pattern && json.pattern.String.length === 1)

/**
 * Combines the decoders of a file. Without decoders, tokens are joined by blanks.
 *
 * Errors   throws RangeError for a decoder that needs tokens after one that joined them to one
 *          text, and for a pattern that is not valid.
 */
export const decodingMachine = (decoders: readonly SimpleDecoder[]): DecodingMachine => {
  if (decoders.length === 0)
    return firstAndRest(
      (token) => token,
      (token) => ` ${token}`,
    )
  let stage: Stage = 'tokens'
  const machines = decoders.flatMap((json) => {
    if (stage === 'text' && !isOnText(json)) {
      throw new RangeError(`the decoder '${json.type}' after one that joins the tokens is not supported`)
    }
    const machine = compile(json, stage)
    if (json.type === 'Fuse' || json.type === 'ByteLevel') stage = 'text'
    return machine === undefined ? [] : [machine]
  })
  return machines.length === 0 ? each((token) => token) : machines.reduce(chained)
}
