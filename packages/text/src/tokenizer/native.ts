/**
 * Tokenization of whole batches, in TypeScript or in the Rust library: one interface, the same
 * results.
 *
 * The Rust library is the npm package `tokenizers`, an optional peer dependency that is loaded on
 * demand. It uses all cores.
 */
import { errorMessage, type FormatFailure } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Encoding } from './encoding.js'
import { parseConfigFile, parseTokenizerFile, type TokenizerFile } from './files.js'
import { configuredTokenizer } from './settings.js'
import { type EncodeOptions, type SpecialTokensInText, type TextTokenizer, textTokenizer } from './textTokenizer.js'

/** The native library is missing or raised an error. */
export interface NativeTokenizerFailure {
  readonly _tag: 'NativeTokenizerFailure'
  readonly reason: string
}

/** Encodes and decodes many texts at a time. */
export interface BatchTokenizer {
  readonly encodeBatch: (
    texts: readonly string[],
    options?: EncodeOptions,
  ) => TE.TaskEither<NativeTokenizerFailure, readonly Encoding[]>
  readonly decodeBatch: (
    batch: readonly ArrayLike<number>[],
    specialTokens: SpecialTokensInText,
  ) => TE.TaskEither<NativeTokenizerFailure, readonly string[]>
}

/**
 * Creates a batch tokenizer from a text tokenizer. Cost: one text after another, in this thread.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * batchTokenizer(tokenizer).encodeBatch(['a', 'b'])
 */
export const batchTokenizer = (tokenizer: TextTokenizer): BatchTokenizer => ({
  encodeBatch: (texts, options) => TE.fromIO(() => texts.map((text) => tokenizer.encoding(text, options))),
  decodeBatch: (batch, specialTokens) => TE.fromIO(() => batch.map((ids) => tokenizer.decode(ids, specialTokens))),
})

type Library = typeof import('tokenizers')
type NativeTokenizer = InstanceType<Library['Tokenizer']>
type NativeEncoding = Awaited<ReturnType<NativeTokenizer['encode']>>

const failure = (what: string, error: unknown): NativeTokenizerFailure => ({
  _tag: 'NativeTokenizerFailure',
  reason: `${what}: ${errorMessage(error)}`,
})

const load: TE.TaskEither<NativeTokenizerFailure, Library> = TE.tryCatch(
  () => importPackage<Library>('tokenizers', import.meta),
  (error) => failure("the native tokenizer needs the package 'tokenizers' (npm install tokenizers)", error),
)

/**
 * Returns the file for the native library, with the changes of the config and without padding and
 * truncation.
 */
const nativeJson = (raw: object, file: TokenizerFile): string =>
  JSON.stringify({ ...raw, truncation: null, padding: null, added_tokens: file.added_tokens })

/** Maps the position of each code point to its position in UTF-16 code units. */
const unitPlaces = (text: string): Int32Array => {
  const places = new Int32Array(text.length + 1)
  let [count, at] = [0, 0]
  for (const character of text) {
    at += character.length
    places[++count] = at
  }
  return places
}

const encodingOf = (native: NativeEncoding, text: string): Encoding => {
  const places = unitPlaces(text)
  const added = native.getSpecialTokensMask()
  return {
    ids: Int32Array.from(native.getIds()),
    offsets: Int32Array.from(native.getOffsets().flat(), (place) => places[place]!),
    typeIds: Int32Array.from(native.getTypeIds()),
    texts: Int32Array.from(added, (isAdded) => (isAdded === 1 ? -1 : 0)),
    attentionMask: Int32Array.from(native.getAttentionMask()),
    specialTokensMask: Int32Array.from(added),
  }
}

const batchesOf = (native: NativeTokenizer, own: TextTokenizer): BatchTokenizer => ({
  encodeBatch: (texts, options = {}) =>
    (options.specialTokens ?? 'recognize') !== 'recognize'
      ? batchTokenizer(own).encodeBatch(texts, options)
      : TE.tryCatch(
          async () => {
            const encodings = await native.encodeBatch([...texts], { addSpecialTokens: options.template === 'add' })
            return encodings.map((encoding, i) => encodingOf(encoding, texts[i]!))
          },
          (error) => failure('the native tokenizer could not encode', error),
        ),
  decodeBatch: (batch, specialTokens) => {
    if (own.settings.cleanUpSpaces === 'decoding') return batchTokenizer(own).decodeBatch(batch, specialTokens)
    return TE.tryCatch(
      () =>
        native.decodeBatch(
          batch.map((ids) => Array.from(ids)),
          specialTokens === 'skip',
        ),
      (error) => failure('the native tokenizer could not decode', error),
    )
  },
})

/**
 * Creates the Rust library's tokenizer from the same files as `textTokenizer`, with the same
 * results.
 *
 * The package supports neither plain text, in which no special tokens are recognized, nor the
 * cleaning of blanks. The TypeScript tokenizer encodes the former and decodes with the latter.
 *
 * Errors   `Left(NativeTokenizerFailure)` if the package `tokenizers` is not installed or refuses
 *          the file; `Left(FormatFailure)` as `textTokenizer`.
 * Effects  loads the package when the task runs.
 *
 * @example
 * nativeTokenizer(trainBytePairEncoding([], { vocabularySize: 256 }))
 */
export const nativeTokenizer = (
  tokenizerJson: object,
  tokenizerConfig: object = {},
): TE.TaskEither<FormatFailure | NativeTokenizerFailure, BatchTokenizer> =>
  pipe(
    load,
    TE.bindTo('library'),
    TE.bindW('own', () => TE.fromEither(textTokenizer(tokenizerJson, tokenizerConfig))),
    TE.bindW('file', () => TE.fromEither(parseTokenizerFile(tokenizerJson))),
    TE.bindW('config', () => TE.fromEither(parseConfigFile(tokenizerConfig))),
    TE.chainEitherKW(({ library, own, file, config }) =>
      E.tryCatch(
        () => {
          const json = nativeJson(tokenizerJson, configuredTokenizer(file, config))
          return batchesOf(library.Tokenizer.fromString(json), own)
        },
        (error) => failure('the native tokenizer refused the file', error),
      ),
    ),
  )
