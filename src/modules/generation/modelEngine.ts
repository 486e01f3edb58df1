/** The generation engine of a decoder: its compiled runner, its weights and its adapters. */
import { type Clock, checkOptions, type Failure, type Files, type Memory, problemList, refuse } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import type { AdapterWeights, TextTokenizer, WeightFailure, WeightSource } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { checkStored } from '../../data/codecs/checkStored.js'
import { withLora } from '../lora/adapter.js'
import { adapterFromWeights } from '../lora/weights.js'
import { MODEL_ENGINE_OPTIONS } from '../optionKinds.js'
import { arithmeticDifferences } from '../pretrained/arithmetic.js'
import { loadWeights, makeParams } from '../pretrained/pretrained.js'
import type { DecoderConfig } from '../transformer/config.js'
import { HEAD, type Params, parameterShapes } from '../transformer/params.js'
import { type EngineLimits, type LocalLLMEngine, makeLLMEngine } from './llmEngine.js'
import type { Rounding } from './runner/modelRunner.js'
import { makeRunner } from './runner/runner.js'

/** A decoder to serve. */
export interface ModelEngineOptions {
  readonly config: DecoderConfig
  /**
   * The initial weights. The engine becomes one more owner of their tensors; the caller stays an
   * owner.
   */
  readonly params: Params
  /** Version of `params`. Default 0. */
  readonly version?: number
  /** Default: the model's end tokens. */
  readonly endTokens?: readonly number[]
  /** Without a tokenizer, events have no text, and stop strings are refused. */
  readonly tokenizer?: Pick<TextTokenizer, 'decodeStart'> | null
  readonly limits?: Partial<EngineLimits>
  /**
   * Default `alike`: a row's tokens are the same in any batch. Its log-probabilities are equal bit
   * for bit if all widths are multiples of 4.
   */
  readonly rounding?: Rounding
  /** Reads checkpoint folders for `loadWeights`. */
  readonly files?: Files
  readonly clock?: Clock
  readonly memory?: Memory
}

const refusal = (reason: string): WeightFailure => ({ _tag: 'WeightFailure', receiver: 'engine', reason })

/**
 * Reads and checks the parameters of a source. A tied model takes those of an untied one too, with
 * which it computes from then on.
 */
const readWeights = (
  config: DecoderConfig,
  files: Files,
): ((source: WeightSource) => TE.TaskEither<WeightFailure, Params>) => {
  const { tiedEmbeddings: isTied } = config
  return (source) => {
    switch (source._tag) {
      case 'Arrays': {
        const stored = new Map([...source.arrays].map(([name, array]) => [name, { type: 'F32' as const, ...array }]))
        return TE.fromEither(
          pipe(
            checkStored(
              parameterShapes({ ...config, tiedEmbeddings: isTied && !stored.has(`${HEAD}.weight`) }),
              stored,
            ),
            E.bimap(({ reason }) => refusal(reason), makeParams),
          ),
        )
      }
      case 'Folder':
        return pipe(
          loadWeights(source.path, files),
          TE.mapLeft((failure: Failure) => refusal(failure.reason)),
          TE.chainEitherK((loaded) => {
            const differ = arithmeticDifferences(config, loaded.config).filter(
              (path) => !isTied || path !== 'tiedEmbeddings',
            )
            if (differ.length === 0) return E.right(makeParams(loaded.arrays))
            return E.left(refusal(`${source.path} holds another model: its config differs in ${problemList(differ)}`))
          }),
        )
    }
  }
}

const withAdapter =
  (config: DecoderConfig) =>
  (base: Params, adapter: AdapterWeights): E.Either<WeightFailure, Params> =>
    pipe(
      adapterFromWeights(config, adapter),
      E.bimap(
        ({ reason }) => refusal(reason),
        ({ config: lora, arrays }) => withLora(base, { config: lora, tensors: makeParams(arrays) }),
      ),
    )

/**
 * Makes a generation engine for a decoder, in this thread. Guide page 32 uses one.
 *
 * Shapes   `params` must have the names and shapes of `parameterShapes(config)`.
 * Errors   throws RangeError for a longer context than the model's. A refused request is a `Failed`
 *          event; refused weights or adapters are `Left(WeightFailure)`.
 * Effects  owns one share of `params`, compiled graphs, keys and values until `close`.
 * Cost     that of `makeLLMEngine`. Graphs are compiled on first use.
 */
export const modelEngine = (options: ModelEngineOptions): LocalLLMEngine => {
  checkOptions('modelEngine', options, MODEL_ENGINE_OPTIONS)
  const { config, params, version = 0, endTokens = config.endTokens, tokenizer = null, limits, rounding } = options
  const { files = liveFiles, clock, memory } = options
  const maxLength = limits?.maxModelLength
  refuse('modelEngine', [
    maxLength !== undefined &&
      maxLength > config.maxPositions &&
      `maxModelLength must be at most ${config.maxPositions}, the number of positions of the model, got ${maxLength}`,
  ])
  return makeLLMEngine({
    runner: makeRunner(config, { ...(rounding && { rounding }), ...(maxLength !== undefined && { maxLength }) }),
    params,
    model: { version, endTokens, tokenizer },
    readWeights: readWeights(config, files),
    withAdapter: withAdapter(config),
    ...(limits && { limits }),
    ...(clock && { clock }),
    ...(memory && { memory }),
  })
}
