/** The generation engine of a decoder: its compiled runner, its weights and its adapters. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Clock, Files, Memory } from '../../core/capabilities.js'
import { type Failure, problemList } from '../../core/failure.js'
import { aList, aNumber, anything, aRecord, checkOptions, type OptionKinds, oneOf } from '../../core/options.js'
import type { AdapterWeights, WeightSource } from '../../data/generation.js'
import type { WeightFailure } from '../../data/weights.js'
import { liveFiles } from '../../live/files.js'
import type { TextTokenizer } from '../../text/tokenizer/textTokenizer.js'
import { withLora } from '../lora/adapter.js'
import { adapterFromWeights } from '../lora/weights.js'
import { arithmeticDifferences } from '../pretrained/arithmetic.js'
import { checkStored } from '../pretrained/checkStored.js'
import { loadWeights, makeParams } from '../pretrained/pretrained.js'
import type { DecoderConfig } from '../transformer/config.js'
import { type Params, parameterShapes } from '../transformer/params.js'
import { type EngineLimits, type LocalLLMEngine, makeLLMEngine } from './llmEngine.js'
import { makeRunner, type Rounding } from './runner/runner.js'

/** A decoder that is to be served. */
export interface ModelEngineOptions {
  readonly config: DecoderConfig
  /** The first weights. The engine is one more owner of their tensors; the caller's ownership stays. */
  readonly params: Params
  /** Version of `params`. Default 0. */
  readonly version?: number
  /** Default: the model's end tokens. */
  readonly endTokens?: readonly number[]
  /** Null or absent: events have no text, and stop strings are refused. */
  readonly tokenizer?: Pick<TextTokenizer, 'decodeStart'> | null
  readonly limits?: Partial<EngineLimits>
  /** Default `alike`: a row's tokens are the same in any batch, and its log-probabilities bit for bit if all widths are multiples of 4. */
  readonly rounding?: Rounding
  /** Reads checkpoint folders for `loadWeights`. */
  readonly files?: Files
  readonly clock?: Clock
  readonly memory?: Memory
}

const refusal = (reason: string): WeightFailure => ({ _tag: 'WeightFailure', receiver: 'engine', reason })

/** Parameters of a source, all of them checked. */
const readWeights =
  (config: DecoderConfig, files: Files) =>
  (source: WeightSource): TE.TaskEither<WeightFailure, Params> => {
    switch (source._tag) {
      case 'Arrays': {
        const stored = new Map([...source.arrays].map(([name, array]) => [name, { type: 'F32' as const, ...array }]))
        return TE.fromEither(
          pipe(
            checkStored(parameterShapes(config), stored),
            E.bimap(({ reason }) => refusal(reason), makeParams),
          ),
        )
      }
      case 'Folder':
        return pipe(
          loadWeights(source.path, files),
          TE.mapLeft((failure: Failure) => refusal(failure.reason)),
          TE.chainEitherK((loaded) => {
            const differ = arithmeticDifferences(config, loaded.config)
            if (differ.length === 0) return E.right(makeParams(loaded.arrays))
            return E.left(refusal(`${source.path} holds another model: its config differs in ${problemList(differ)}`))
          }),
        )
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

const MODEL_ENGINE_OPTIONS: OptionKinds<ModelEngineOptions> = {
  config: aRecord,
  params: aRecord,
  version: aNumber,
  endTokens: aList,
  tokenizer: anything,
  limits: aRecord,
  rounding: oneOf('free', 'alike'),
  files: aRecord,
  clock: aRecord,
  memory: aRecord,
}

/**
 * A generation engine for a decoder, in this thread. Page 11 of the guide uses one.
 *
 * Shapes   `params` are those of `parameterShapes(config)`.
 * Errors   none here: a refused request is a `Failed` event, refused weights or adapters are `Left(WeightFailure)`.
 * Effects  owns one share of `params`, compiled graphs and keys and values until `close`.
 * Cost     as `makeLLMEngine`; graphs are compiled when first needed.
 */
export const modelEngine = (options: ModelEngineOptions): LocalLLMEngine => {
  checkOptions('modelEngine', options, MODEL_ENGINE_OPTIONS)
  const { config, params, version = 0, endTokens = config.endTokens, tokenizer = null, limits, rounding } = options
  const { files = liveFiles, clock, memory } = options
  const maxLength = limits?.maxModelLength
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
