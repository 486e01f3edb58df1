/**
 * The pipeline from text to token ids: finds added tokens, normalizes the text between them, splits
 * it into pieces, and splits the pieces into tokens.
 *
 * Source   the order of steps and the offsets of tokens are those of Hugging Face tokenizers 0.23,
 *          `Tokenizer::encode`.
 */
import { overlapTest, type TextRange } from '../textRange.js'
import { type IsPlain, type Section, type Sought, tokenFinder } from './addedTokens.js'
import { type AlignedText, original, originEnd, originStart } from './alignedText.js'
import { bytePairModel } from './bytePairModel.js'
import { type Encoding, textEncoding } from './encoding.js'
import type { AddedTokenJson, ModelJson, TokenizerFile } from './files.js'
import type { CutPiece, Model } from './model.js'
import { normalizer, normalizeText } from './normalize.js'
import { preTokenizer } from './preTokenize.js'
import { unigramModel } from './unigramModel.js'
import { wordLevelModel, wordPieceModel } from './wordModels.js'

/**
 * The treatment of special tokens in a text: recognized, or plain text in the whole text or in
 * ranges. A special token is plain text if any part of it is in a range.
 */
export type TextReading = 'recognize' | 'plainText' | { readonly plainText: readonly TextRange[] }

export interface Pipeline {
  /** Returns the ids of a text. */
  readonly ids: (text: string, reading: TextReading) => Int32Array
  /**
   * Returns the tokens of a text with their offsets. `index` is 0 for the first and 1 for the
   * second text of a pair.
   */
  readonly encode: (text: string, reading: TextReading, index: 0 | 1) => Encoding
  readonly idOf: (token: string) => number | undefined
  readonly tokenOf: (id: number) => string | undefined
  /** All tokens with their ids. */
  readonly vocabulary: ReadonlyMap<string, number>
}

const modelOf = (json: ModelJson, alphabet: 'characters' | 'bytes'): Model => {
  switch (json.type) {
    case 'BPE':
      return bytePairModel(json, alphabet)
    case 'WordPiece':
      return wordPieceModel(json)
    case 'Unigram':
      return unigramModel(json)
    case 'WordLevel':
      return wordLevelModel(json)
  }
}

/** One way to read a text: the sections to split off first, and the splitter of pieces. */
interface Reading {
  readonly sections: (text: string) => readonly Section[]
  readonly cut: CutPiece
}

const everywhere: IsPlain = () => true
const nowhere: IsPlain = () => false

/**
 * Lists special tokens first, so that of two tokens with the same text the special one is found.
 */
const soughtIn = (tokens: readonly AddedTokenJson[], textOf: (token: AddedTokenJson) => string): readonly Sought[] =>
  [...tokens.filter(({ special }) => special), ...tokens.filter(({ special }) => !special)].map((token) => ({
    text: textOf(token),
    token,
  }))

const checkAdded = (added: readonly AddedTokenJson[], model: Model): void => {
  for (const { content, id } of added) {
    const known = model.vocabulary.ids.get(content)
    if (known !== undefined && known !== id) {
      throw new RangeError(`the added token '${content}' has the id ${id}, but the model gives it ${known}`)
    }
  }
}

const lazy = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** Replaces each lone surrogate by U+FFFD, as in UTF-8. */
const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, '\ufffd')

/** Collects ids and offsets. */
const encodingOf = (
  sections: readonly Section[],
  index: 0 | 1,
  tokensOf: (section: AlignedText) => Iterable<readonly [AlignedText, Int32Array]>,
): Encoding => {
  const ids: number[] = []
  const offsets: number[] = []
  const add = (piece: AlignedText, id: number, [start, end]: readonly [number, number]): void => {
    ids.push(id)
    if (end > start) offsets.push(originStart(piece, start), originEnd(piece, end - 1))
    else offsets.push(0, 0)
  }
  for (const { text, id } of sections) {
    if (id !== undefined) {
      add(text, id, [0, text.text.length])
      continue
    }
    for (const [piece, tokens] of tokensOf(text)) {
      for (let i = 0; i < tokens.length; i += 3) add(piece, tokens[i]!, [tokens[i + 1]!, tokens[i + 2]!])
    }
  }
  return textEncoding(Int32Array.from(ids), Int32Array.from(offsets), index)
}

/**
 * Builds the pipeline of a file.
 *
 * Errors   throws RangeError or SyntaxError for parts that contradict each other, are malformed or
 *          are not supported.
 */
export const pipelineOf = (file: TokenizerFile): Pipeline => {
  const normalize = normalizer(file.normalizer)
  const { cut: cutSection, alphabet } = preTokenizer(file.pre_tokenizer)
  const model = modelOf(file.model, alphabet)
  const added = file.added_tokens
  checkAdded(added, model)
  const before = tokenFinder(
    soughtIn(
      added.filter(({ normalized }) => !normalized),
      ({ content }) => content,
    ),
  )
  const after = tokenFinder(
    soughtIn(
      added.filter(({ normalized }) => normalized),
      ({ content }) => normalizeText(normalize, content),
    ),
  )
  const sectionsOf =
    (isPlain: IsPlain) =>
    (text: string): readonly Section[] =>
      before(original(wellFormed(text)), isPlain).flatMap((section) =>
        section.id === undefined ? after(normalize(section.text), isPlain) : [section],
      )
  const recognizing = model.cutter(new Set())
  const plain = lazy(() =>
    model.cutter(new Set(added.filter(({ id, special }) => special && id !== model.unknown).map(({ id }) => id))),
  )
  const reading = (kind: TextReading): Reading => {
    if (kind === 'recognize') return { sections: sectionsOf(nowhere), cut: recognizing }
    return { sections: sectionsOf(kind === 'plainText' ? everywhere : overlapTest(kind.plainText)), cut: plain() }
  }
  const addedIds = new Map(added.map(({ content, id }) => [content, id]))
  const addedTokens = new Map(added.map(({ content, id }) => [id, content]))
  return {
    ids: (text, kind) => {
      const how = reading(kind)
      const ids: number[] = []
      for (const section of how.sections(text)) {
        if (section.id !== undefined) {
          ids.push(section.id)
          continue
        }
        for (const piece of cutSection(section.text)) {
          const tokens = how.cut(piece.text)
          for (let i = 0; i < tokens.length; i += 3) ids.push(tokens[i]!)
        }
      }
      return Int32Array.from(ids)
    },
    encode: (text, kind, index) => {
      const how = reading(kind)
      return encodingOf(how.sections(text), index, (section) =>
        cutSection(section).map((piece) => [piece, how.cut(piece.text)] as const),
      )
    },
    idOf: (token) => addedIds.get(token) ?? model.vocabulary.ids.get(token),
    tokenOf: (id) => addedTokens.get(id) ?? model.vocabulary.tokens.get(id),
    vocabulary: new Map([...model.vocabulary.ids, ...addedIds]),
  }
}
