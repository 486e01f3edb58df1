/** A model in GGUF in the terms of Hugging Face's files. */
import type { FileFailure, Files, FormatFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type GgufArray, type GgufReadFailure, type OpenGguf, openGguf } from '../openGguf.js'
import { configOf } from './config.js'
import { FREQUENCIES, namedTensors } from './names.js'
import { type TokenizerFiles, tokenizerFiles } from './tokenizer.js'

/** A model in GGUF with the names, layouts and files of Hugging Face. */
export interface GgufModel {
  /** `config.json`. */
  readonly config: Readonly<Record<string, unknown>>
  /** Shapes by Hugging Face's names, such as `model.layers.0.self_attn.q_proj.weight`. */
  readonly shapes: ReadonlyMap<string, readonly number[]>
  /** The text side, or the reason why it has no counterpart. */
  readonly text: E.Either<FormatFailure, TokenizerFiles>
  /**
   * Reads a tensor in Hugging Face's layout.
   *
   * Errors   throws RangeError for a name that is not in `shapes`. `Left(FileFailure)` if the file
   *          can no longer be read.
   */
  readonly read: (name: string) => TE.TaskEither<FileFailure, GgufArray>
  /** Closes the files. Call it once, after the last read. */
  readonly close: TE.TaskEither<FileFailure, void>
}

const failure = (where: string, problems: readonly string[]): FormatFailure => ({
  _tag: 'FormatFailure',
  format: 'GGUF',
  where,
  reason: problems.slice(0, 20).join('; '),
})

const modelOf = (
  path: string,
  open: OpenGguf,
  frequencies: Float32Array | undefined,
): E.Either<FormatFailure, GgufModel> => {
  const { metadata, entries } = open
  const found = configOf({ metadata, frequencies, shapeOf: (name) => entries.get(name)?.shape })
  if ('problems' in found) return E.left(failure(path, found.problems))
  const { tensors, unknown } = namedTensors(found.architecture, entries, found.heads)
  if (unknown.length > 0) {
    return E.left(
      failure(
        path,
        unknown.map((name) => `the tensor ${JSON.stringify(name)} is not a part of ${found.architecture}`),
      ),
    )
  }
  const text = tokenizerFiles(metadata)
  return E.right({
    config: found.json,
    shapes: new Map([...tensors].map(([name, { shape }]) => [name, shape])),
    text: 'problem' in text ? E.left(failure(path, [text.problem])) : E.right(text),
    read: (name) => {
      const tensor = tensors.get(name)
      if (tensor === undefined) throw new RangeError(`read: there is no tensor ${JSON.stringify(name)}`)
      const { from, change } = tensor
      return pipe(
        open.read(from),
        TE.map((array) => change?.(array) ?? array),
      )
    },
    close: open.close,
  })
}

const frequenciesOf = ({ entries, read }: OpenGguf): TE.TaskEither<FileFailure, Float32Array | undefined> =>
  entries.has(FREQUENCIES)
    ? pipe(
        read(FREQUENCIES),
        TE.map(({ data }) => data),
      )
    : TE.right(undefined)

/**
 * Opens a model in GGUF, and describes it as Hugging Face's files do: config, tokenizer, chat
 * template, and names and layouts of tensors.
 *
 * Models   llama (with Mistral), qwen2, qwen3, gemma2, gemma3, smollm3, olmo2, gpt2.
 * Layouts  llama.cpp reorders the rows of queries and keys of some architectures, adds 1 to
 *          Gemma's norms, and transposes GPT-2's matrices. `read` restores all of them.
 * Errors   those of `openGguf`, and `Left(FormatFailure)` for another architecture, settings that
 *          are not supported, and tensors that the architecture does not have. All files are
 *          closed then.
 * Effects  the files are open until `close`.
 */
export const openGgufModel = (path: string, files: Pick<Files, 'open'>): TE.TaskEither<GgufReadFailure, GgufModel> =>
  pipe(
    openGguf(path, files),
    TE.chain((open) =>
      pipe(
        frequenciesOf(open),
        TE.chainEitherKW((frequencies) => modelOf(path, open, frequencies)),
        TE.orElseW((problem) =>
          pipe(
            open.close,
            TE.chainW(() => TE.left(problem)),
          ),
        ),
      ),
    ),
  )
