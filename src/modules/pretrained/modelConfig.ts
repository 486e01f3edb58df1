/** The config of a model folder with the end tokens of all its files, and its sampling defaults. */
import type { ConfigFailure, Files, ModelFailure } from '@tandem-rl/base'
import { warn } from '@tandem-rl/base/host'
import type { TextTokenizer } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { fileProblem, readJson, readOptionalJson } from '../../data/folderFiles.js'
import { type DecoderConfig, parseConfig } from '../transformer/config.js'
import { ggufConfig, isGguf } from './ggufModel.js'

const GENERATION_CONFIG = 'generation_config.json'

const tokenId = z.int().nonnegative()

const generationSchema = z.looseObject({ eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish() })

/** The entries with which Transformers' `generate` and vLLM sample if a request has none. */
const SAMPLING = ['temperature', 'top_p', 'top_k', 'min_p', 'repetition_penalty', 'max_new_tokens']

const readGeneration = (files: Files, folder: string): TE.TaskEither<ModelFailure, z.output<typeof generationSchema>> =>
  pipe(
    isGguf(folder) ? TE.right({}) : readOptionalJson(files, folder, GENERATION_CONFIG),
    TE.chainEitherK((json) => {
      const parsed = generationSchema.safeParse(json)
      return parsed.success
        ? E.right(parsed.data)
        : E.left(fileProblem(folder, GENERATION_CONFIG, z.prettifyError(parsed.error)))
    }),
  )

/**
 * Returns the sampling defaults of a folder's `generation_config.json`, for commands with which a
 * person talks to a model. Training and servers do not use them.
 */
export const samplingDefaults = (
  files: Files,
  folder: string,
): TE.TaskEither<ModelFailure, readonly (readonly [name: string, value: unknown])[]> =>
  pipe(
    readGeneration(files, folder),
    TE.map((json) => Object.entries(json).filter(([name, value]) => SAMPLING.includes(name) && value !== null)),
  )

const inConfig = (folder: string) =>
  E.mapLeft(({ reason }: ConfigFailure): ModelFailure => fileProblem(folder, 'config.json', reason))

/** Adds end tokens to a config. Ids outside of the vocabulary are never sampled, and left out. */
const withEnds =
  (folder: string, ids: readonly number[]) =>
  (config: DecoderConfig): E.Either<ModelFailure, DecoderConfig> => {
    const added = ids.filter((id) => id < config.vocabularySize && !config.endTokens.includes(id))
    return added.length === 0
      ? E.right(config)
      : inConfig(folder)(parseConfig({ ...config.source, eos_token_id: [...new Set([...config.endTokens, ...added])] }))
  }

/**
 * Reads `config.json`, with the end tokens of `generation_config.json` besides its own, or the
 * metadata of a GGUF file.
 *
 * Effects  a warning for fields that are not known and have no effect.
 */
export const readConfig = (folder: string, files: Files): TE.TaskEither<ModelFailure, DecoderConfig> =>
  pipe(
    isGguf(folder) ? ggufConfig(folder, files) : readJson(files, folder, 'config.json'),
    TE.chainEitherK((json) => inConfig(folder)(parseConfig(json))),
    TE.bindTo('config'),
    TE.bind('generation', () => readGeneration(files, folder)),
    TE.chainFirstIOK(
      ({ config: { ignoredFields } }) =>
        () =>
          ignoredFields.length > 0 && warn(`${folder}/config.json: fields without effect: ${ignoredFields.join(', ')}`),
    ),
    TE.chainEitherK(({ config, generation: { eos_token_id: ends } }) =>
      withEnds(folder, typeof ends === 'number' ? [ends] : (ends ?? []))(config),
    ),
  )

/** The parts of a model's text side that determine how turns end. */
interface EndingText {
  readonly tokenizer: TextTokenizer
  readonly endOfTurn: string
}

/**
 * Makes the end of turn and the `eos_token` of a text side end tokens of the config, and adds the
 * config's other special end tokens to the text side.
 */
export const withTextEnds = <T extends EndingText>(
  folder: string,
  config: DecoderConfig,
  text: T,
): E.Either<
  ModelFailure,
  { readonly config: DecoderConfig; readonly text: T & { readonly otherEnds: readonly string[] } }
> => {
  const { tokenizer, endOfTurn } = text
  const ids = [endOfTurn, tokenizer.settings.roles.eos ?? endOfTurn].flatMap((token) => tokenizer.idOf(token) ?? [])
  return pipe(
    withEnds(folder, ids)(config),
    E.map((whole) => {
      const isOther = (token: string, id: number): boolean => token !== endOfTurn && whole.endTokens.includes(id)
      const otherEnds = [...tokenizer.specialTokens].flatMap(([token, id]) => (isOther(token, id) ? [token] : []))
      return { config: whole, text: { ...text, otherEnds } }
    }),
  )
}
